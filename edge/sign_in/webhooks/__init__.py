"""Webhooks: the signature schemes of providers, and the decision about a request."""
