"""What Envoy reads when it starts."""
