"""Plans of what the edge serves, decided from the records. Pure, and independent of Envoy."""
