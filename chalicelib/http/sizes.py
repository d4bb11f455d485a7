"""Sizes of answers: Lambda sends at most 6 MB, and counts them in JSON in which the answer's text stands once more."""

import json
from collections.abc import Mapping
from typing import Any

MAX_ANSWER = 5_500_000  # characters of entries: their list's address and what it leads to have the rest


def encoded(entry: Mapping[str, Any]) -> int:
    """Return the characters that an entry takes in an answer."""
    return len(json.dumps(json.dumps(entry)))
