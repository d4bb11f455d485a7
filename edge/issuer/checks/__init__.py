"""The preflight before an order: DNS lookups, and requests to the domain."""
