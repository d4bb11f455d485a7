"""What the names of an account serve, decided from its records: for the live edge, and for the status of edges."""
