"""Looks at the records that prove domains: all of the DNS that the service speaks."""
