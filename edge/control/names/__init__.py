"""Names on demand: reading the records of a visited name, its plan, and loading it."""
