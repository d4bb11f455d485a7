"""The traffic of an account's tunnels by hour, for billing.

Each gateway writes separate records. A record contains the total of its hour, so writing it again does not count
traffic twice.
"""

from collections.abc import Mapping

from chalicelib import clock
from chalicelib.model.tunnels.tunnels import Traffic
from chalicelib.storage.records import decoding, direct_writes, items, table

_RETENTION = 400 * 86_400  # seconds for which traffic is stored: a year, and a month more for disputes about bills


def write(account: str, hour: str, gateway: str, usage: Traffic) -> None:
    """Store the traffic of a gateway in an hour, for example "2026-11-22T14" (UTC). Raises aws.Unavailable."""
    body = {"bytes_in": usage.bytes_in, "bytes_out": usage.bytes_out, "requests": usage.requests}
    expires = clock.seconds() + _RETENTION
    direct_writes.merge(_scope(account, hour[:7]), f"{hour}#{gateway}", body, expires=expires)


def read_days(account: str, month: str) -> Mapping[str, Traffic]:
    """Return the traffic of an account in a month ("2026-11") by day. Raises aws.Unavailable."""
    days: dict[str, Traffic] = {}
    for item in table.read_all(_scope(account, month)):
        day = item.id[:10]
        days[day] = days.get(day, Traffic()) + decoding.decode(Traffic, item.body)
    return dict(sorted(days.items()))


def _scope(account: str, month: str) -> str:
    return items.scope(account, f"/usage/{month}")
