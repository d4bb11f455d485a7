"""A Terraform provider for tunnel-edge services, generated from their OpenAPI document."""

__version__ = "3.0.0"
NAME = "tunneledge"
ADDRESS = f"terraform.local/tunnel-edge/{NAME}"  # no public registry can have this host name
