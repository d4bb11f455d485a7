"""The process that runs Envoy and drains it. A check limits Envoy's memory while control does not run."""
