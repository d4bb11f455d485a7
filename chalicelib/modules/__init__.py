"""The modules of edges and routes (SPEC 2.9, 4.8): one file each, named as the last segment of its path."""
