"""Sizes of responses. Lambda's limit of 6 MB counts a response as a JSON string inside JSON."""

MAX_ANSWER = 5_500_000  # the most characters of a page's entries; the rest is for other fields and headers


def measure_encoded(text: str) -> int:
    """Return the length of a JSON text inside a JSON string. There, quotes and backslashes are escaped."""
    return len(text) + text.count('"') + text.count("\\")
