"""Builds resources from plans, and sends those that change."""
