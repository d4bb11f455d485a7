"""Patterns for the claims of a token. `*` matches any text. No function has I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

# for each claim name, the pattern or patterns; the claim must match at least one of them
Patterns = Mapping[str, str | list[str]]

ANY = "*"


def find_mismatch(claims: Mapping[str, Any], required: Patterns) -> str | None:
    """Return the first required claim that is missing or matches no pattern."""
    return next((name for name in required if not matches(list_patterns(required, name), claims.get(name))), None)


def list_patterns(required: Patterns, name: str) -> list[str]:
    """Return the patterns of a claim. The list is empty if the claim is not required."""
    patterns = required.get(name, [])
    return [patterns] if isinstance(patterns, str) else patterns


def matches(patterns: Iterable[str], value: object) -> bool:
    """Return whether a claim matches one of the patterns. A claim that is a list matches if one entry does."""
    entries = value if isinstance(value, list) else [value]
    texts = [text for entry in entries if (text := to_text(entry)) is not None]
    return any(_matches(pattern, text) for pattern in patterns for text in texts)


def to_text(value: object) -> str | None:
    """Return a claim's value as text. Return None unless the value is a string, integer or boolean."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text. Each `*` takes time linear in the length of the text."""
    first, *parts = pattern.split(ANY)
    if not parts:
        return text == pattern
    last = parts.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in parts:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True
