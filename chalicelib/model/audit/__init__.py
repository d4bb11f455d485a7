"""Audit events: writing them, their details, reading them, and their partitions."""
