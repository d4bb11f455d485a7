"""The only calls to AWS. They use the table of records (DynamoDB) and the vault of secrets (KMS)."""
