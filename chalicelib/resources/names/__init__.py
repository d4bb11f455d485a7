"""Reserved domains and addresses."""
