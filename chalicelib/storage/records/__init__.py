"""Items in the table: keys, references, shards, the change log, and their writes."""
