"""Decides from an account's records which edge or tunnel serves each name.

The live edge applies these decisions. The API shows them in the status of an edge.
"""
