"""DNS lookups of the records that prove domains. Only this package uses DNS."""
