"""Filters of Envoy's listeners and routes. These files do no I/O."""
