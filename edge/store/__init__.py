"""Reads and writes the records that the edge shares with the API."""
