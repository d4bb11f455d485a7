"""Decisions about the names of an account, from its records. The live edge and the status of edges use them."""
