"""Shapes (classes with the fields of bodies and their rules), and JSON Schema. Only this folder imports pydantic."""
