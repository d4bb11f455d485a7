"""The domain model: kinds, accounts, credentials, authorities, tunnels, backends, edges, modules.

Imports neither Chalice nor pydantic, so that the API, the operator's commands and the live edge can share it.
"""
