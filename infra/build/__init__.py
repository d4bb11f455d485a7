"""Builds of the OpenAPI document, the page of GET /docs, and its screenshot."""
