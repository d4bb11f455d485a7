"""Edges, routes, modules and backends, and what the live edge reports of them."""
