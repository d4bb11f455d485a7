"""The rates that limit requests, and their approximate counts in each process."""
