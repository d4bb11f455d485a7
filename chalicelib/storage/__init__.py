"""The only calls to AWS: the table of records (DynamoDB) and the vault of secrets (KMS)."""
