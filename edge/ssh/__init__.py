"""The SSH gateway: who signs in, what may be bound, channels, terminals. No word of Envoy."""
