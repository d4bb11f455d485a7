"""Decisions of the issuer: times, retries, bounds, turns and preflight. Pure."""
