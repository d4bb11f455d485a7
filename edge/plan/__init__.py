"""The plan of what is served, decided from the records. Pure, without Envoy's terms."""
