"""Evaluates CAA records (RFC 8659 and 8657). This file does no I/O.

The caller finds the records: of the domain, or of its closest parent that has any.
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
    """Return whether CAA records permit an order. A CA that has no names for CAA records does not check them."""
    found = [record._replace(tag=record.tag.lower()) for record in records]
    if any(it.flags & _CRITICAL and it.tag not in _KNOWN for it in found):
        return False
    wild = [it for it in found if it.tag == "issuewild"]
    relevant = wild if wish.is_wildcard and wild else [it for it in found if it.tag == "issue"]
    return not relevant or not wish.identities or any(_admits(it.value, wish) for it in relevant)


def protects(records: Iterable[CaaRecord], wish: Wish) -> bool:
    """Return whether CAA records permit only orders of the wish's account, with the wish's kind of challenge."""
    issuing = [it for it in records if it.tag.lower() in ("issue", "issuewild")]
    return any(it.tag.lower() == "issue" for it in issuing) and all(
        _is_empty(it.value) or (_admits(it.value, wish) and _names(it.value, wish)) for it in issuing
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
    parameters = [(name.strip().lower(), text.strip()) for name, _, text in (it.partition("=") for it in parts if it)]
    accounts = [text for name, text in parameters if name == "accounturi"]
    methods = [text for name, text in parameters if name == "validationmethods"]
    of_account = not accounts or accounts == [wish.account_url]
    return of_account and all(wish.method in (it.strip() for it in text.split(",")) for text in methods)
