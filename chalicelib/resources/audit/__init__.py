"""Audit events: who changed which resource, and when."""
