"""Commands that read the whole table: parallel scans with their progress in files."""
