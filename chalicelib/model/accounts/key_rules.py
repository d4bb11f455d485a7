"""Rules for the API keys of an account, stored as a module of the account.

All code that creates keys calls `find_violations`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chalicelib.model.accounts import accounts, networks, scopes
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.model.base.records import StoredModule
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item

NAME = "api_key_rules"


@dataclass(frozen=True, kw_only=True)
class ApiKeyRules(StoredModule):
    """The rules of an account. None and False mean that there is no rule. Times are in seconds."""

    max_lifetime: int | None = None
    require_scopes: bool = False
    allowed_networks: list[str] | None = None
    max_idle_days: int | None = None

    AUDITED = ("enabled", "max_lifetime", "require_scopes", "allowed_networks", "max_idle_days")


@dataclass(frozen=True, kw_only=True)
class AccountRules(ApiKeyRules):
    """The rules of an account, and the limits of its requests. Only the operator changes these limits."""

    limits: dict[str, int] | None = None


def read(account: str) -> AccountRules:
    """Return the rules of an account. One read. Raises MalformedRecord, aws.Unavailable."""
    item = table.read(accounts.SCOPE, account)
    return decode_rules(item) if item else AccountRules()


def decode_rules(item: Item) -> AccountRules:
    """Return the rules in the record of an account, with its limits. Raises MalformedRecord.

    If the rules are not set or disabled, return only the limits.
    """
    if item.malformed:
        raise item.malformed
    limits = {"limits": item.body.get("limits")}
    rules = AccountRules.of({**item.modules.get(NAME, {}), **limits})
    return rules if rules.enabled else AccountRules.of(limits)


def list_copied_fields(rules: AccountRules) -> dict[str, Any]:
    """Return the rules that are copied into token records. A rule that is not set is None."""
    return {
        "account_networks": rules.allowed_networks,
        "max_idle_days": rules.max_idle_days,
        "account_limits": rules.limits or None,
    }


def list_exchange_fields(rules: AccountRules) -> dict[str, Any]:
    """Return the rules that are copied into the unique keys of federated credentials.

    A rule that is not set is None.
    """
    bounds = {"account_lifetime": rules.max_lifetime, "require_scopes": rules.require_scopes or None}
    return {**list_copied_fields(rules), **bounds}


def find_violations(rules: ApiKeyRules, limits: KeyLimits, created: int) -> dict[str, str]:
    """Return the rules that a new API key breaks, as validation errors by field. `created` is a Unix second."""
    return dict(_violations(rules, limits, created))


def _violations(rules: ApiKeyRules, limits: KeyLimits, created: int) -> Iterator[tuple[str, str]]:
    max_lifetime = rules.max_lifetime
    if max_lifetime is not None and (limits.expires is None or limits.expires - created > max_lifetime):
        yield (
            "expires_at",
            f"must be at most {max_lifetime} seconds after the creation of the key, as the account's rules require",
        )
    if rules.require_scopes and (not limits.scopes or scopes.ALL in limits.scopes):
        yield "scopes", f"must be set and must not contain '{scopes.ALL}', as the account's rules require"
    allowed = rules.allowed_networks
    if allowed and (outside := networks.find_outside(limits.networks, allowed)):
        bounds = ", ".join(allowed)
        yield "allowed_networks", f"must lie within {bounds}, as the account's rules require; {outside} does not"
