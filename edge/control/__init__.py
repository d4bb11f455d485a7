"""Reads changed records, and sends Envoy the resources that they affect."""
