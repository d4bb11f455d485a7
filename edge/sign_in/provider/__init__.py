"""Identity providers: their table, their answers, and requests to them."""
