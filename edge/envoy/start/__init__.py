"""Envoy's configuration at its start."""
