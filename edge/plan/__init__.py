"""Decides from the records what the edge serves: plans for names, edges and ports.

These files do no I/O, and are independent of Envoy.
"""
