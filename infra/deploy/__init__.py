"""The deployment: the templates, the Lambda package, and the stacks in a cloud."""
