"""The tunnel and edge management API: everything the Lambda functions run."""
