"""Commands over the whole table: parallel scans with their progress in files."""
