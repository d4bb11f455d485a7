"""The ACME accounts of this service, one per ACME directory. A record has the encrypted account key, and the state at
the CA.

The key is changed in two steps: the new key is stored beside the old one, then the CA is informed. If an issuer (a
process that orders certificates) stops between the steps, another issuer does the second step.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chalicelib.model.base.kinds import EDGE
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import decoding, items

DEFAULT_IDENTITY = "letsencrypt.org"  # the CA's name in CAA records, if the ACME directory does not contain the name
_ID = "acme"
_CONTEXT = vault.context(EDGE, _ID)
_EXISTS = Condition("attribute_exists(#id)")


CaaState = Literal["", "published", "missing"]


@dataclass(frozen=True)
class AcmeAccount:
    """The latest known state of an account at a CA. `rotates` is true if an issuer must change the account key.

    `caa` describes whether CAA records of the tunnel domain admit only this account, "" if no issuer has checked.
    """

    directory: str
    url: str = ""
    identities: list[str] = field(default_factory=list)
    rotates: bool = False
    caa: CaaState = ""


def find_or_create(directory: str, generate: Callable[[], bytes]) -> bytes:
    """Return the account key for an ACME directory.

    If there is none, `generate` creates one, which all issuers then use. The key is DER. Do not store it. Raises
    aws.Unavailable.
    """
    record = _read(directory)
    if record is None:
        new = {"scope": _scope(directory), "id": _ID, "body": {"directory": directory}, "revision": 1}
        try:
            sealed = {"private_key": vault.seal(generate(), _CONTEXT)}
            dynamodb.do(Write.put({**new, "sealed": sealed}, Condition("attribute_not_exists(#id)")))
        except ConditionFailed:  # another issuer has stored an account key first; use that key
            pass
        record = _read(directory) or {}
    return vault.unseal(record["sealed"]["private_key"], _CONTEXT, bytes)


def find(directory: str) -> AcmeAccount | None:
    """Return the account for an ACME directory, or None. Raises MalformedRecord, aws.Unavailable."""
    record = _read(directory)
    return decoding.decode(AcmeAccount, record["body"]) if record else None


def describe(account: AcmeAccount) -> None:
    """Store the latest known state of an account. Raises aws.Unavailable."""
    sets = {"body.url": account.url, "body.identities": account.identities, "body.caa": account.caa}
    dynamodb.do(Write.update(_scope(account.directory), _ID, _EXISTS, sets=sets))


def request_rotation(directory: str) -> bool:
    """Request that an issuer changes the key of an account.

    Return False if there is no account. Raises aws.Unavailable.
    """
    try:
        dynamodb.do(Write.update(_scope(directory), _ID, _EXISTS, sets={"body.rotates": True}))
    except ConditionFailed:
        return False
    return True


def find_next(directory: str) -> bytes | None:
    """Return the key that will replace the account key, as DER, or None. Raises aws.Unavailable."""
    record = _read(directory)
    sealed = record["sealed"].get("next_key") if record else None
    return vault.unseal(sealed, _CONTEXT, bytes) if sealed else None


def begin_rotation(directory: str, key: bytes) -> bool:
    """Store the key that will replace the account key.

    Return False if such a key is stored already, or if there is no account. Raises aws.Unavailable.
    """
    condition = Condition("attribute_exists(#id) AND attribute_not_exists(#sealed.#next_key)")
    try:
        sets = {"sealed.next_key": vault.seal(key, _CONTEXT)}
        dynamodb.do(Write.update(_scope(directory), _ID, condition, sets=sets))
    except ConditionFailed:
        return False
    return True


def end_rotation(directory: str) -> None:
    """Replace the account key by the key that `begin_rotation` stored. Raises aws.Unavailable."""
    record = _read(directory)
    sealed = record["sealed"].get("next_key") if record else None
    if sealed:
        same = Condition("#sealed.#next_key = :next", {"next": sealed})
        sets = {"sealed.private_key": sealed, "sealed.next_key": None, "body.rotates": None}
        dynamodb.do(Write.update(_scope(directory), _ID, same, sets=sets))


def _read(directory: str) -> Mapping[str, Any] | None:
    return dynamodb.get(_scope(directory), _ID)


def _scope(directory: str) -> str:
    return items.scope(EDGE, f"/acme/{hashlib.sha256(directory.encode()).hexdigest()}")
