"""The rates that limit requests of accounts, API keys and addresses. 0 means no limit."""

import os
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from chalicelib.storage.client.aws_errors import Misconfigured

REQUESTS, BURST = "requests_per_second", "burst"
CERTIFICATES, EVENTS = "certificates_per_second", "events_per_second"
ACCOUNT_FIELDS = (REQUESTS, BURST, CERTIFICATES, EVENTS)  # the limits that the operator can set for an account
MAX_RATE = 100_000

SETTINGS = {
    REQUESTS: "ACCOUNT_REQUESTS_PER_SECOND",
    BURST: "ACCOUNT_BURST",
    CERTIFICATES: "ACCOUNT_CERTIFICATES_PER_SECOND",
    EVENTS: "ACCOUNT_EVENTS_PER_SECOND",
}
_ADDRESS = "ADDRESS_REJECTIONS_PER_SECOND"
_SECONDS_AT_ONCE = 2  # the burst of certificates or events is the rate per second times this number
_SECONDS_OF_AN_ADDRESS = 10


class Rate(NamedTuple):
    """A limit: the average number of requests per second, and the maximum number at once."""

    per_second: int
    burst: int


def find_account_rate(limits: Mapping[str, int]) -> Rate | None:
    """Return the rate of the requests of an account. Return None if the account has no limit.

    `limits` are the limits that the operator has set for the account. For a missing limit, the deployment's default
    applies.
    """
    if REQUESTS in limits:
        return _rate(limits[REQUESTS], limits.get(BURST, 0))
    default = _read_default(REQUESTS)
    return _rate(default, limits.get(BURST) or _read_default(BURST)) if default else None


def find_certificate_rate(limits: Mapping[str, int]) -> Rate | None:
    """Return the rate of the certificates that an account signs. Return None without a limit."""
    return _choose_rate(limits, CERTIFICATES)


def find_event_rate(limits: Mapping[str, int]) -> Rate | None:
    """Return the rate of the audit events that an account reads. Return None without a limit."""
    return _choose_rate(limits, EVENTS)


def find_key_rate(limits: Mapping[str, int]) -> Rate | None:
    """Return the rate of an API key, or None without a limit."""
    return _rate(limits.get(REQUESTS, 0), limits.get(BURST, 0))


def find_address_rate() -> Rate | None:
    """Return the rate of the requests without a valid token from one address. Return None without a limit."""
    rate = _number(_ADDRESS)
    return _rate(rate, rate * _SECONDS_OF_AN_ADDRESS)


def _choose_rate(limits: Mapping[str, int], name: str) -> Rate | None:
    rate = limits[name] if name in limits else _read_default(name)
    return _rate(rate, rate * _SECONDS_AT_ONCE)


@cache
def _rate(per_second: int, burst: int) -> Rate | None:
    return Rate(per_second, burst or per_second) if per_second else None


def _read_default(name: str) -> int:
    return _number(SETTINGS[name])


def _number(setting: str) -> int:
    return _parse(setting, os.environ.get(setting, ""))


@cache
def _parse(setting: str, text: str) -> int:
    """Return the number in `text`, the value of a setting. Raises Misconfigured."""
    if text and not text.isdecimal():
        raise Misconfigured(f"{setting} is not a number")
    return int(text or 0)
