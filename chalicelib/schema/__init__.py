"""Shapes of bodies, their fields and rules, and what JSON Schema says of them. Only here is pydantic imported."""
