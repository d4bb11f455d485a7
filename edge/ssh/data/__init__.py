"""Bytes between Envoy and SSH clients."""
