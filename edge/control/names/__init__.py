"""Names on demand: reads the records of a visited name, plans the name, and loads it into Envoy."""
