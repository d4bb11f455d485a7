"""Requests to the service's HTTP API, and the operations that its OpenAPI document describes."""
