"""POST /tokens: the exchange of tokens of issuers for keys and certificates."""
