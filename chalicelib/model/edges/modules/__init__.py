"""The modules of edges, routes and reservations: what the API and the edge must know of each, one file each.

A file is named like the module, and declares it as MODULE.
"""
