"""Shapes of bodies, their fields and rules, and their JSON Schema. The only importer of pydantic."""
