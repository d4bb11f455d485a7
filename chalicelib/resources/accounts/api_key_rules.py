"""Rules for the API keys of an account: lifetime, scopes, networks and idle time.

Only admins with an API key of scope `*` may see and change these rules.
"""

from dataclasses import dataclass
from typing import Annotated

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, NotFound
from chalicelib.http.module import Enabled, Module
from chalicelib.model.accounts import accounts, key_rules, networks, scopes, switching
from chalicelib.model.accounts.key_rules import ApiKeyRules
from chalicelib.model.accounts.networks import MAX_NETWORKS
from chalicelib.schema.rules import After, between, entries, if_null
from chalicelib.storage.records import item_keys
from chalicelib.storage.records.items import Item

_MAX_LIFETIME = 5 * 365 * 24 * 60 * 60  # the largest value of `max_lifetime`, in seconds

Network = Annotated[str, After(networks.check, {"format": "network"})]


class APIKeyRules(Enabled):
    """Rules for the API keys of the account. A null or absent field is no rule."""

    max_lifetime: Annotated[int, between(60, _MAX_LIFETIME)] | None = None
    """Maximum lifetime in seconds of a new key. A key without an end is then refused."""

    require_scopes: Annotated[bool, if_null(False)] = False
    """True: a new key must have scopes, and `*` is refused."""

    allowed_networks: Annotated[list[Network], entries(1, MAX_NETWORKS)] | None = None
    """CIDR networks from which keys may be used. They apply to existing keys at once."""

    max_idle_days: Annotated[int, between(1, 365)] | None = None
    """Days after which an unused key is refused like an unknown key. The rule applies to existing keys at once."""


def _permit(caller: Caller) -> None:
    caller.require_admin("see and change the rules for API keys")
    caller.require(scopes.ALL)


@dataclass(frozen=True, kw_only=True)
class _AccountModule(Module):
    """The module of the caller's account with its rules for API keys. Each token's record has a copy of the rules."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        put, *endpoints = super().endpoints()
        return (put, *(endpoint._replace(errors=(*endpoint.errors, NotFound)) for endpoint in endpoints))

    def item_key(self, call: Call) -> tuple[str, str]:
        return accounts.SCOPE, call.caller.account

    def put(self, call: Call) -> Item | None:
        """Set the rules, and copy them to the records of all tokens. If a call was interrupted, repeat it."""
        if not item_keys.is_latest_format():
            raise Conflict("Rules for API keys are not accepted until the operator sets RECORD_FORMAT to 4.")
        allowed = call.body.allowed_networks if call.body.enabled else None
        if allowed and not call.has_if_match and not networks.contain(allowed, call.change.by.source_ip):
            rule = f"must contain your address, {call.change.by.source_ip}; to set the networks anyway, send If-Match"
            raise Conflict(
                "These networks would lock you out, because they do not contain your address.",
                {"allowed_networks": rule},
            )
        account = super().put(call)
        switching.copy_rules(call.caller.account)
        return account

    def delete(self, call: Call) -> None:
        super().delete(call)
        switching.copy_rules(call.caller.account)


ROUTES = _AccountModule(
    path=f"/{scopes.ACCOUNT}/{key_rules.NAME}",
    shape=APIKeyRules,
    stored=ApiKeyRules,
    errors=(Conflict,),
    permits=_permit,
)
