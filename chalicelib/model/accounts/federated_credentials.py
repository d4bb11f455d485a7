"""Federated credentials. Each declares which tokens of an OpenID Connect issuer an account trusts.

It also declares the user or bot for which the client with such a token acts. An exchange reads only the credential's
unique key: a record that is read by the credential's id and has copies of all fields that an exchange requires.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.base.records import References, Stored, Traced
from chalicelib.model.limits import item_counts
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import unique_keys
from chalicelib.storage.records.unique_keys import UniqueKey

KIND = "federated"  # `UniqueKey.kind` of the ids of federated credentials
IDENTITY = "identity"  # `UniqueKey.kind` of the subjects of issuers; the record of a subject has the id of its user
MAX_COUNT = 200  # the most federated credentials of an account
MAX_BYTES = 4096  # the most bytes of the attributes of a credential's unique key, as JSON
MAX_CHAIN = 8  # the most federated credentials from which a key can descend (see `trees.py`)
MIN_LIFETIME, MAX_LIFETIME, DEFAULT_LIFETIME = 60, 43_200, 900  # seconds for which a key or certificate is valid


@dataclass(frozen=True, kw_only=True)
class SignIn(Stored):
    """The public OpenID Connect parameters with which a client signs a person in at the issuer."""

    client_id: str = ""
    client_secret: str = ""
    scopes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FederatedCredential(Traced):
    """The stored form of a federated credential. Exactly one of `owner_id` and `owner_claim` is set."""

    issuer: str = ""
    audiences: list[str] = field(default_factory=list)
    claims: Mapping[str, str | list[str]] = field(default_factory=dict)
    owner_id: str = ""
    owner_claim: str = ""
    provision: bool = False
    scopes: list[str] = field(default_factory=list)
    max_lifetime: int = DEFAULT_LIFETIME
    single_use: bool = False
    enabled: bool = True
    sign_in: SignIn | None = None

    # The fields that an exchange needs. The unique key copies them, so one read suffices.
    _REPEATED: ClassVar[tuple[str, ...]] = (
        *("issuer", "audiences", "claims", "owner_id", "owner_claim", "provision"),
        *("scopes", "max_lifetime", "single_use", "enabled"),
    )
    AUDITED = (
        *("issuer", "audiences", "claims", "owner_id", "owner_claim", "provision"),
        *("scopes", "max_lifetime", "single_use", "enabled", "created_by"),
    )

    def to_record(self) -> dict[str, Any]:
        return {**super().to_record(), "sign_in": self.sign_in.to_record() if self.sign_in else None}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the credential's unique key, with copies of the fields that an exchange requires."""
        repeated_fields = {name: getattr(self, name) for name in self._REPEATED}
        return (replace(key_of(id), attributes={"account": account, **repeated_fields}),)

    def references(self) -> References:
        return {"owner_id": [self.owner_id]} if self.owner_id else {}


def key_of(id: str) -> UniqueKey:
    """Return the unique key for a credential's id, without attributes."""
    return UniqueKey(KIND, ids.strip_prefix(id))


def size(key: UniqueKey) -> int:
    """Return the size of a unique key's attributes as JSON, in bytes."""
    return len(json.dumps(dict(key.attributes), ensure_ascii=False).encode())


def count_new(account: str) -> Write:
    """Return the write that counts a new federated credential. It fails with TooManyItems above MAX_COUNT."""
    message = f"An account has at most {MAX_COUNT} federated credentials."
    return item_counts.add(account, kinds.FEDERATED_CREDENTIALS.path, MAX_COUNT, message)


def require_enabled(ids: Sequence[str], failing: Exception) -> list[Write]:
    """Return the condition checks for a new key or certificate with the chain `ids` (see `trees.py`).

    The first credential of the chain must be enabled. The other credentials must be enabled or deleted: a credential
    can be deleted only while no valid API key descends from it. If a check fails, the transaction raises `failing`.
    """
    enabled, values = "#body.#enabled = :enabled", {"enabled": True}
    first_condition = Condition(enabled, values)
    later_condition = Condition(f"attribute_not_exists(#id) OR {enabled}", values)
    return [
        Write.check(key_of(id).scope, unique_keys.ID, later_condition if index else first_condition, failing)
        for index, id in enumerate(ids)
    ]
