"""Counts the traffic of accounts, and stores it."""
