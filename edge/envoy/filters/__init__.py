"""Filters of Envoy's listeners and routes. Pure."""
