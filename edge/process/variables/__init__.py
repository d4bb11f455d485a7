"""Parses the values of environment variables."""
