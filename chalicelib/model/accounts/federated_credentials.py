"""Federated credentials: the tokens of an OpenID Connect issuer that an account trusts, and their owner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.base.records import References, Stored, Traced

MAX_COUNT = 200  # of an account
MIN_LIFETIME, MAX_LIFETIME, DEFAULT_LIFETIME = 60, 43_200, 900  # seconds


@dataclass(frozen=True, kw_only=True)
class SignIn(Stored):
    """What a client needs to let a person sign in. All of it is public."""

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

    AUDITED = (
        *("issuer", "audiences", "claims", "owner_id", "owner_claim", "provision"),
        *("scopes", "max_lifetime", "single_use", "enabled", "created_by"),
    )

    def to_record(self) -> dict[str, Any]:
        return {**super().to_record(), "sign_in": self.sign_in.to_record() if self.sign_in else None}

    def references(self) -> References:
        return {"owner_id": [self.owner_id]} if self.owner_id else {}
