"""Webhooks: the signature schemes of providers, and whether a request has a valid signature."""
