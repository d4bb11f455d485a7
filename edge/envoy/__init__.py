"""Builds Envoy's resources: listeners, routes and clusters. These files do no I/O."""
