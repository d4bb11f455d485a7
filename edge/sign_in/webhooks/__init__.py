"""Webhooks: the schemes by which providers sign them, and the decision about a request."""
