"""Names on demand: the shared HTTPS listener, and the scope of each name. Pure."""
