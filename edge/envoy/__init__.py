"""Builds Envoy's resources: listeners, routes and clusters. Pure."""
