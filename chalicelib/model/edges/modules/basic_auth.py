"""Passwords on HTTPS edge routes and for tunnels. Only encrypted digests of the passwords are stored."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from chalicelib.crypto import passwords
from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory
from chalicelib.storage import vault


@dataclass(frozen=True, kw_only=True)
class BasicAuthModule(StoredModule):
    """The names of the users that may pass, and the encrypted digests of their passwords."""

    usernames: list[str]
    passwords: bytes = field(repr=False)

    AUDITED = ("enabled", "usernames", "passwords")

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        users = {credential["username"]: credential["password"] for credential in values["credentials"]}
        if before and before._has(users, context):
            sealed = before.passwords
        else:
            digests = {name: passwords.make_digest(password) for name, password in users.items()}
            encoded = {name: base64.b64encode(digest).decode() for name, digest in digests.items()}
            text = json.dumps(encoded, ensure_ascii=False).encode()
            sealed = vault.seal(text, password_context(context), read=_parse_digests)
        return cls(enabled=values["enabled"], usernames=[*users], passwords=sealed)

    @property
    def rule(self) -> "BasicAuthRule | None":
        """Return the rule that the edge enforces. Return None if there are no users."""
        digest = hashlib.sha256("\n".join(self.usernames).encode() + self.passwords).hexdigest()[:16]
        return BasicAuthRule(digest) if self.usernames and self.passwords else None

    def open_passwords(self, context: Mapping[str, str]) -> Mapping[str, bytes]:
        """Return the password digests by user. `context` is the encryption context of the route or reservation.

        Raises aws.Unavailable, and vault.Unreadable if the digests cannot be decrypted.
        """
        if not self.passwords:
            return {}
        return vault.unseal_readable(self.passwords, password_context(context), _parse_digests)

    def _has(self, users: Mapping[str, str], context: Mapping[str, str]) -> bool:
        """Return whether a module has exactly these users and passwords. False if its digests cannot be decrypted."""
        if [*users] != self.usernames:
            return False
        try:
            known = self.open_passwords(context)
        except vault.Unreadable:
            return False
        if known.keys() != users.keys():
            return False
        return all(passwords.matches(password, known[name]) for name, password in users.items())


def _parse_digests(text: bytes) -> dict[str, bytes]:
    return {name: base64.b64decode(digest) for name, digest in json.loads(text).items()}


@dataclass(frozen=True)
class BasicAuthRule:
    """The rule that visitors of a route or tunnel need a password. `digest` changes with users and passwords."""

    digest: str


def password_context(context: Mapping[str, str]) -> dict[str, str]:
    """Return the encryption context of passwords: the context of the route or reservation, with the module's name."""
    return vault.context(context["account"], f"{context['resource']}/basic_auth")


MODULE = EdgeModule(
    name="basic_auth",
    parents=(kinds.HTTPS_EDGE_ROUTES, kinds.RESERVED_DOMAINS),
    stored=BasicAuthModule,
    read=lambda module: module.rule,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=True,
    budget=10_800,
    memory=lambda _: Memory(entry_kib=3.0),
    excludes=("oauth",),
    configures_route="filters.passwords.require_route",
)
