"""The build of the Terraform provider: its resources from the OpenAPI document, and its wheel."""
