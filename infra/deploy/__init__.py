"""The deployment: templates, the Lambda package, and stacks in a cloud."""
