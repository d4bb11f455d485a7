"""The discovery server of Envoy (delta ADS)."""
