"""Patterns of host names that the operator has banned: nobody gets a name that matches one.

`*` stands for any characters, dots too. A gateway reads all of them every other second, the API with each name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from chalicelib import clock
from chalicelib.model import audit, changes, names
from chalicelib.model.changes import Change
from chalicelib.model.kinds import EDGE
from chalicelib.model.records import Created
from chalicelib.storage import items, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

MAX_PATTERNS = 100  # each is compared with each name
_SCOPE = items.scope(EDGE, "/banned_patterns")
_LEAST = 3  # characters beside the stars: of fewer the operator would ban half of all names by a slip
_FORM = re.compile(r"[a-z0-9.*-]{1,253}")


@dataclass(frozen=True, kw_only=True)
class Ban(Created):
    """The stored form of a banned pattern."""

    reason: str = ""


class TooManyPatterns(Exception):
    """MAX_PATTERNS are banned already."""


def normal(text: str) -> str:
    """Return a pattern in its normal form. Raises ValueError, aws.Unavailable."""
    pattern = text.lower()
    if not _FORM.fullmatch(pattern):
        raise ValueError("is not a pattern of host names, for example *bank* or *.bank.example")
    if len(pattern.replace("*", "")) < _LEAST:
        raise ValueError(f"has fewer than {_LEAST} characters beside its stars")
    domain = names.domain_in_use()
    if domain and matches(f".{domain}", [pattern]):
        raise ValueError(f"would ban every name below {domain}")
    return pattern


def ban(pattern: str) -> None:
    """Ban a pattern in its normal form, with an event in the operator's trail. Raises TooManyPatterns."""
    if len({*patterns(), pattern}) > MAX_PATTERNS:
        raise TooManyPatterns
    body = Ban(created_at=clock.rfc3339(clock.now()), reason=audit.reason()).to_record()
    record = Item(_SCOPE, pattern, body).to_record()
    Change(audit.OPERATOR).also(Write.put(record), audit.told("name_ban.create", pattern)).commit()


def allow(pattern: str) -> bool:
    """Lift the ban of a pattern; False where there is none. Raises aws.Unavailable."""
    change = Change(audit.OPERATOR).also(audit.told("name_ban.delete", pattern))
    return changes.delete(change, _SCOPE, pattern)


def patterns() -> list[str]:
    """Return all banned patterns. One query. Raises aws.Unavailable."""
    return sorted(item.id for item in table.newest(_SCOPE))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a name, or a wildcard of names, matches one of some patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
