"""The keys of ACME accounts, one for each directory, sealed in the table."""

import hashlib
from collections.abc import Callable

from chalicelib.model.base.kinds import EDGE
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import items

_ID = "acme"
_CONTEXT = vault.context(EDGE, _ID)


def find_or_create(directory: str, generate: Callable[[], bytes]) -> bytes:
    """Return the account key for a directory. If there is none, `generate` makes one, stored once by all issuers.

    The key is DER. Do not store it. Raises aws.Unavailable.
    """
    record = dynamodb.get(_scope(directory), _ID)
    if record is None:
        new = {"scope": _scope(directory), "id": _ID, "body": {"directory": directory}, "revision": 1}
        try:
            sealed = {"private_key": vault.seal(generate(), _CONTEXT)}
            dynamodb.do(Write.put({**new, "sealed": sealed}, Condition("attribute_not_exists(#id)")))
        except ConditionFailed:  # another issuer was first
            pass
        record = dynamodb.get(_scope(directory), _ID) or {}
    return vault.unseal(record["sealed"]["private_key"], _CONTEXT, bytes)


def _scope(directory: str) -> str:
    return items.scope(EDGE, f"/acme/{hashlib.sha256(directory.encode()).hexdigest()}")
