"""The process that runs Envoy, and what its parent checks."""
