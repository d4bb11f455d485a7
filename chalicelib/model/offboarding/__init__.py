"""Offboarding of users, bots, API keys and federated credentials, with all that they made."""
