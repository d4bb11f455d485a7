"""The limits of a new API key's requests. They cannot exceed the limits of the account and of the caller's key."""

from collections.abc import Mapping
from typing import Annotated, Any

from chalicelib.http.errors import InvalidRequest
from chalicelib.model.limits import rates
from chalicelib.schema.rules import between
from chalicelib.schema.shapes import Shape


class RequestedLimit(Shape):
    """The limit of the requests of a new API key."""

    requests_per_second: Annotated[int, between(1, rates.MAX_RATE)]
    """The number of requests per second on average."""

    burst: Annotated[int, between(1, rates.MAX_RATE)] | None = None
    """The maximum number of requests at once. Default: `requests_per_second`."""


class KeyLimit(Shape):
    """The limit of the requests of an API key."""

    requests_per_second: int
    """The number of requests per second on average."""

    burst: int
    """The maximum number of requests at once."""


def build_limit(limit: Any) -> dict[str, int]:
    """Return a requested limit as the record stores it. The default burst is the number of requests in one second."""
    per_second = limit.requests_per_second
    return {rates.REQUESTS: per_second, rates.BURST: limit.burst or per_second}


def require_within_account(limits: Mapping[str, int], of_account: Mapping[str, int]) -> None:
    """Raise InvalidRequest if the limits of a new key exceed the limits of its account."""
    rate = rates.find_account_rate(of_account)
    bounds = {rates.REQUESTS: rate.per_second, rates.BURST: rate.burst} if rate else {}
    if errors := find_above(limits, bounds, "must be at most {}, the limit of the account"):
        raise InvalidRequest.of(errors)


def find_above(limits: Mapping[str, int], bounds: Mapping[str, int], rule: str) -> dict[str, str]:
    """Return an error message for each field of `limits` that exceeds its bound in `bounds`.

    `rule` is the message, with {} in place of the bound.
    """
    above = {name: bound for name, bound in bounds.items() if limits.get(name, bound) > bound}
    return {f"limits.{name}": rule.format(bound) for name, bound in above.items()}
