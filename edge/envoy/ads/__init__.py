"""The discovery server (delta ADS) that sends Envoy its resources."""
