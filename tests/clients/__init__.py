"""Clients that generators make of the document: compiled, and each does everything that there is to do."""
