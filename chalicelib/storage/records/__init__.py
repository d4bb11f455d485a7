"""Items in the table: their unique keys, references, shards, change log and writes."""
