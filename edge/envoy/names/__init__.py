"""Envoy's resources for names on demand: the shared HTTPS listener, and a scope per name. These files do no I/O."""
