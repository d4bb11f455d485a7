"""Offboarding of users, bots, API keys and federated credentials, with all resources that they created."""
