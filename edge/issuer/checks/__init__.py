"""The preflight of orders: lookups and requests at the domain."""
