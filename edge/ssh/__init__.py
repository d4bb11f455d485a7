"""The SSH gateway: sign-ins, tunnels, channels and terminals. It does not import Envoy's API."""
