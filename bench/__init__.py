"""Benchmarks: one file per figure, each a ratio of two things that were measured side by side."""
