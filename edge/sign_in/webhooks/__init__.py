"""Webhooks: the schemes by which providers sign them."""
