"""The clients of DynamoDB and KMS, their transport and their errors."""
