"""Shapes (classes that declare the fields of bodies and their rules), and JSON Schema. Only this imports pydantic."""
