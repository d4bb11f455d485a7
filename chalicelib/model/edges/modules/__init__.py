"""The modules of edges, routes and reservations: one file each, named like the module.

Each file has the stored type, and the declaration MODULE, which the API and the edge share.
"""
