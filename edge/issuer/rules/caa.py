"""Evaluates CAA records (RFC 8659 and 8657). This file does no I/O.

The caller must pass the records of the domain. If the domain has none, the caller must pass those of its closest parent
domain with CAA records.
"""

from collections.abc import Iterable
from typing import NamedTuple

_CRITICAL = 128
_KNOWN = frozenset({"issue", "issuewild", "iodef", "issuemail", "issuevmc", "contactemail", "contactphone"})


class CaaRecord(NamedTuple):
    """The fields of a CAA record (RFC 8659, section 4.1)."""

    flags: int
    tag: str
    value: str


class Wish(NamedTuple):
    """The values of an order that CAA records can restrict. `identities` are the CA's names in CAA records."""

    identities: tuple[str, ...]
    account_url: str
    method: str
    is_wildcard: bool = False


def admits(records: Iterable[CaaRecord], wish: Wish) -> bool:
    """Return whether CAA records permit an order.

    If a CA has no names for CAA records, the records are not checked.
    """
    normal_records = [record._replace(tag=record.tag.lower()) for record in records]
    if any(record.flags & _CRITICAL and record.tag not in _KNOWN for record in normal_records):
        return False
    wild = [record for record in normal_records if record.tag == "issuewild"]
    relevant = wild if wish.is_wildcard and wild else [record for record in normal_records if record.tag == "issue"]
    return not relevant or not wish.identities or any(_admits(record.value, wish) for record in relevant)


def protects(records: Iterable[CaaRecord], wish: Wish) -> bool:
    """Return whether CAA records permit only orders with the account and the kind of challenge of `wish`."""
    issuing = [record for record in records if record.tag.lower() in ("issue", "issuewild")]
    return any(record.tag.lower() == "issue" for record in issuing) and all(
        _is_empty(record.value) or (_admits(record.value, wish) and _names(record.value, wish)) for record in issuing
    )


def _is_empty(value: str) -> bool:
    return not value.partition(";")[0].strip()


def _names(value: str, wish: Wish) -> bool:
    """Return whether a CAA record permits only the order's account and kind of challenge."""
    parts = {"".join(part.split()).lower() for part in value.split(";")[1:]}
    return {f"accounturi={wish.account_url}".lower(), f"validationmethods={wish.method}"} <= parts


def _admits(value: str, wish: Wish) -> bool:
    issuer, *parts = (part.strip() for part in value.split(";"))
    if issuer.lower().removesuffix(".") not in wish.identities:
        return False
    parameters = [
        (name.strip().lower(), text.strip()) for name, _, text in (part.partition("=") for part in parts if part)
    ]
    accounts = [text for name, text in parameters if name == "accounturi"]
    methods = [text for name, text in parameters if name == "validationmethods"]
    of_account = not accounts or accounts == [wish.account_url]
    return of_account and all(wish.method in (name.strip() for name in text.split(",")) for text in methods)
