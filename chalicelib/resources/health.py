"""GET /health: whether the table and the key can be used.

It requires no authentication, so each process checks at most every five seconds.
"""

import threading
import time
from typing import Any, Literal

from chalicelib.http.endpoints import NO_STORE, Call, Endpoint
from chalicelib.http.errors import ServiceUnavailable
from chalicelib.schema.shapes import Shape
from chalicelib.storage import snapshot, vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records.items import Item

_SECONDS = 5  # the least number of seconds between two checks by one process
_NAME = "health"  # the id of a record that does not exist; reading this record tests the table


class Health(Shape):
    """The state of the service."""

    status: Literal["ok"]
    """Always `ok`: if the service is not healthy, the response is a 503."""


class Unhealthy(ServiceUnavailable):
    """The table or the key does not answer."""

    retry_after = _SECONDS

    def __init__(self) -> None:
        super().__init__("The service is not healthy.")


class Check:
    """The latest health check. It reads the table and uses the KMS key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._error: AwsError | None = None

    def require_health(self) -> None:
        """Raise Unhealthy if the table or the key does not answer."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._error = _find_error()
                self._until = time.monotonic() + _SECONDS
            error = self._error
        if error:
            raise Unhealthy from error

    def forget(self) -> None:
        """Discard the result of the latest check, so that the next request makes a new check."""
        self._until = 0.0


CHECK = Check()
snapshot.on_restore(CHECK.forget)


def _find_error() -> AwsError | None:
    """Read the table and use the KMS key. Return the error if one of them fails."""
    try:
        dynamodb.get(_NAME, _NAME)
        vault.check_key()
    except AwsError as error:
        return error
    return None


def _get(_call: Call) -> Item:
    CHECK.require_health()
    return Item(_NAME, "", {})  # a placeholder: every endpoint must pass an item to `_show`


def _show(_item: Item, _call: Call) -> dict[str, Any]:
    return {"status": "ok"}


class _Health:
    def endpoints(self) -> tuple[Endpoint, ...]:
        open_to_all = Endpoint("GET", "/health", 200, _get, _show, response=Health, authorizer=None, is_versioned=False)
        return (open_to_all._replace(headers=NO_STORE),)


ROUTES = _Health()
