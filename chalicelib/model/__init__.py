"""The domain model: kinds, accounts, credentials, authorities, tunnels, backends, edges, modules.

Knows neither Chalice nor pydantic, so that the API, the operator and the live edge read the same records alike.
"""
