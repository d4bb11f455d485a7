"""Passes, buffers and counts the bytes between Envoy and SSH clients."""
