"""Plans of what the edge serves, decided from the records. These files do no I/O, and are independent of Envoy."""
