"""Sizes of answers: Lambda sends at most 6 MB, and counts them in JSON in which the answer's text stands once more."""

MAX_ANSWER = 5_500_000  # characters of entries: their list's address and what it leads to have the rest


def encoded(written: str) -> int:
    """Return the length of a JSON text inside a JSON string, where quotes and backslashes are escaped once more."""
    return len(written) + written.count('"') + written.count("\\")
