"""Builds Envoy's resources from plans, and sends changed resources to Envoy."""
