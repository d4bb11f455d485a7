"""The rates that requests are limited to, and their approximate counts in each process."""
