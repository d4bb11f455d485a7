"""The records of the API as the edge reads and writes them."""
