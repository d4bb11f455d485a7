"""The records in the table: resources with their unique keys and references, and the change log."""
