"""Benchmarks: one file per figure. Each is a ratio of two measurements made side by side."""
