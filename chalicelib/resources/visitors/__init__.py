"""The resources that decide which visitors pass."""
