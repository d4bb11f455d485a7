"""Loads names on demand: reads the records of a visited name, plans it, and sends it to Envoy."""
