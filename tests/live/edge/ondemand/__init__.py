"""Names on demand with a real Envoy, and a loader that only reads a table."""
