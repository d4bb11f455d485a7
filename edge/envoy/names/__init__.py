"""Envoy's resources of names that are loaded on demand: the shared HTTPS listener, and a scope per name. Pure."""
