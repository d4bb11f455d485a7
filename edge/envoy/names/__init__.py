"""Builds Envoy's resources for names that are loaded on demand. These files do no I/O.

All names share the HTTPS listener, and each name has a scope.
"""
