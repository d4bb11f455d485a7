"""The check of the limits of a request's account and API key.

The headers that describe the limits are those of draft-ietf-httpapi-ratelimit-headers-11.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from chalicelib.http.errors import RateLimited
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.model.limits import rates
from chalicelib.model.limits.counters import OF_PROCESS, Use
from chalicelib.model.limits.rates import Rate

EVENTS = "/audit_events"
CERTIFICATES = frozenset(("/ssh_user_certificates", "/ssh_host_certificates"))
# Requests that help to find or stop a leaked API key. If a limit is exceeded, each API key can still send these
# requests, up to the rate RESERVE.
RESERVED = frozenset(
    (
        ("GET", "/me"),
        ("GET", "/api_keys"),
        ("GET", "/api_keys/{id}/usage"),
        ("DELETE", "/api_keys/{id}"),
        ("DELETE", "/api_keys/self"),
        ("POST", "/api_keys/{id}/offboard"),
        ("GET", "/users"),
        ("PATCH", "/users/{id}"),
        ("DELETE", "/users/{id}"),
        ("POST", "/users/{id}/offboard"),
        ("GET", "/bot_users"),
        ("PATCH", "/bot_users/{id}"),
        ("DELETE", "/bot_users/{id}"),
        ("POST", "/bot_users/{id}/offboard"),
        ("PATCH", "/federated_credentials/{id}"),
        ("DELETE", "/federated_credentials/{id}"),
        ("POST", "/federated_credentials/{id}/offboard"),
        ("POST", "/ssh_certificate_authorities/{id}/revocations"),
        ("DELETE", "/ssh_user_certificates/{id}"),
        ("DELETE", "/ssh_host_certificates/{id}"),
    )
)
RESERVE = Rate(per_second=2, burst=20)

_FILTERS = frozenset(("action", "after", "before"))
_FILTERED = 500  # the most events that are read to fill one page of a filtered list
_MESSAGES = {
    "account": "Your account sends too many requests: try again after the time in Retry-After.",
    "key": "This API key sends too many requests: try again after the time in Retry-After.",
    "certificates": "Your account signs too many certificates: try again after the time in Retry-After.",
    "events": "Your account reads too many audit events: try again after the time in Retry-After.",
}


class Limited(NamedTuple):
    """The account and API key that send a request, with the limits for both."""

    account: str
    key: str
    limits: KeyLimits

    def use(self, name: str, rate: Rate, cost: int = 1) -> Use:
        """Return a Use that counts `cost` requests or events toward the limit `name`."""
        return Use(f"{self.account}#/limits/{self.key if name == 'key' else name}", rate, cost)


def admit(
    caller: Limited, method: str, template: str, query: Mapping[str, Sequence[str]], headers: dict[str, str]
) -> None:
    """Count a request toward its limits, and add the headers that describe these limits.

    `template` is the path of the request's endpoint. Raises RateLimited if a limit is exceeded. Requests in RESERVED
    may then still use up the API key's reserve, a separate small limit.
    """
    uses = _list_uses(caller, method, template, query)
    if not uses:
        return
    now = time.time()
    is_admitted, standings = OF_PROCESS.admit([*uses.values()], now)
    headers["RateLimit-Policy"] = ", ".join([_format_policy(name, use.rate) for name, use in uses.items()])
    entries = [
        f'"{name}";r={standing.remaining};t={standing.reset}' for name, standing in zip(uses, standings, strict=True)
    ]
    headers["RateLimit"] = ", ".join(entries)
    if is_admitted:
        return
    reserve = Use(f"{caller.key}#reserve", RESERVE, is_shared=False)
    if (method, template) in RESERVED and OF_PROCESS.admit([reserve], now)[0]:
        return
    wait, name = max((standing.wait, name) for name, standing in zip(uses, standings, strict=True))
    raise RateLimited(_MESSAGES[name], retry_after=wait)


def admit_certificate(caller: Limited) -> None:
    """Count a certificate that an exchange signs. Raises RateLimited."""
    rate = rates.find_certificate_rate(caller.limits.account_rates)
    if rate:
        is_admitted, (standing,) = OF_PROCESS.admit([caller.use("certificates", rate)], time.time())
        if not is_admitted:
            raise RateLimited(_MESSAGES["certificates"], retry_after=standing.wait)


def reject(address: str) -> None:
    """Count a request without a valid token. Raises RateLimited if too many of these requests come from an address."""
    rate = rates.find_address_rate()
    if rate:
        use = Use(f"address#{_find_network(address)}", rate, is_shared=False)
        is_admitted, (standing,) = OF_PROCESS.admit([use], time.time())
        if not is_admitted:
            raise RateLimited(
                "Your address sends too many requests without a valid token: try again after the time in Retry-After.",
                retry_after=standing.wait,
            )


def describe(caller: Limited) -> dict[str, Any]:
    """Return the limits of the caller's account and API key, with the remaining amounts.

    A limit that is not set is None.
    """
    account_rates = caller.limits.account_rates
    return {
        "account": _describe(caller, "account", rates.find_account_rate(account_rates)),
        "key": _describe(caller, "key", rates.find_key_rate(caller.limits.rates)),
        "certificates": _describe(caller, "certificates", rates.find_certificate_rate(account_rates)),
        "events": _describe(caller, "events", rates.find_event_rate(account_rates)),
    }


def _describe(caller: Limited, name: str, rate: Rate | None) -> dict[str, int] | None:
    if rate is None:
        return None
    standing = OF_PROCESS.look(caller.use(name, rate), time.time())
    return {"per_second": rate.per_second, "burst": rate.burst, "remaining": standing.remaining}


def _list_uses(caller: Limited, method: str, template: str, query: Mapping[str, Sequence[str]]) -> dict[str, Use]:
    """Return the limits that a request counts toward, by name: `account`, `key`, `certificates`, `events`."""
    uses, account_rates = dict[str, Use](), caller.limits.account_rates
    if rate := rates.find_account_rate(account_rates):
        uses["account"] = caller.use("account", rate)
    if caller.limits.rates and (rate := rates.find_key_rate(caller.limits.rates)):
        uses["key"] = caller.use("key", rate)
    if template in CERTIFICATES and method == "POST" and (rate := rates.find_certificate_rate(account_rates)):
        uses["certificates"] = caller.use("certificates", rate)
    if template == EVENTS and (rate := rates.find_event_rate(account_rates)):
        uses["events"] = caller.use("events", rate, _count_events(query))
    return uses


def _count_events(query: Mapping[str, Sequence[str]]) -> int:
    """Return the maximum number of events that a list request reads.

    An invalid limit counts as 100, because it is rejected later.
    """
    if _FILTERS & query.keys():
        return _FILTERED
    text = query.get("limit", ["100"])[0]
    return int(text) if re.fullmatch("[1-9][0-9]?", text) else 100


@cache
def _format_policy(name: str, rate: Rate) -> str:
    """Return a limit as the header RateLimit-Policy shows it: a quota that is refilled in a window of whole seconds."""
    window = max(1, math.ceil(rate.burst / rate.per_second))
    return f'"{name}";q={rate.per_second * window};w={window}'


def _find_network(address: str) -> str:
    """Return an IPv4 address, or the network of 64 bits that an IPv6 address belongs to."""
    if ":" not in address:
        return address
    import ipaddress  # imported here, because only requests from IPv6 addresses need this module

    return str(ipaddress.ip_network(f"{address}/64", strict=False))
