"""The API's records, as the edge reads and writes them."""
