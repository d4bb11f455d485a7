"""Texts of environment variables and the values that they stand for."""
