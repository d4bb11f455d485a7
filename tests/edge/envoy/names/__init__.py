"""Names on demand, as resources."""
