"""DNS lookups of the records that prove domains. Other packages send no DNS queries."""
