"""The service: its HTTP API, and the commands that its OpenAPI document describes."""
