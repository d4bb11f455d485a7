"""Backends of edges and routes: tunnel groups, HTTP responses and weighted backends."""
