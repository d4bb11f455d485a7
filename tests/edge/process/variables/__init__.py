"""Tests of the texts of environment variables."""
