"""Audit events."""
