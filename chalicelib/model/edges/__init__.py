"""Edges, routes, modules and backends, and the live edge's reports about them."""
