"""Parses the texts of environment variables."""
