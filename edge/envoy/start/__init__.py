"""Builds the configuration that Envoy reads when it starts."""
