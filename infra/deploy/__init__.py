"""The deployment: templates, the Lambda package, and CloudFormation stacks."""
