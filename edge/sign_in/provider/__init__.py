"""Identity providers: the table of their endpoints, requests to them, and their answers."""
