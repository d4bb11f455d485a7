"""Decisions about the names of an account, from its records: for the live edge, and for the status of edges."""
