"""Counting the traffic of accounts."""
