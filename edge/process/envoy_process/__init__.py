"""The process that runs and drains Envoy, and the check that limits Envoy's memory while control does not run."""
