"""The service on each of the filled stores in turn, by its one client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench import requests
from bench.engines import Setting
from chalicelib.authorizer import authorize
from chalicelib.storage import aws

Operation = Callable[[], object]


@contextmanager
def chosen(setting: Setting) -> Iterator[Callable[[int], None]]:
    """Yield a function that redirects the service's calls, and those made by its client, to the store of a size."""
    address = next(iter(setting.stores.values()))

    def choose(size: int) -> None:
        nonlocal address
        address = setting.stores[size]

    def redirect(params: dict[str, Any], **_: object) -> None:
        params["url"] = f"{address}/"

    events = aws.client("dynamodb").meta.events
    events.register("before-call.dynamodb", redirect)
    yield choose
    events.unregister("before-call.dynamodb", redirect)


def operations(setting: Setting, size: int) -> dict[str, Operation]:
    """Return three operations: a page of 100 from the middle of the list, one entry, and the caller of a token."""
    middle = setting.entry(size // 4)

    def get(path: str) -> Any:
        return requests.answer(requests.event("GET", path, setting.token, context=setting.context))

    return {
        "list": lambda: get(f"/backends/weighted?before_id={middle}"),
        "get": lambda: get(f"/backends/weighted/{middle}"),
        "authenticate": lambda: authorize({"headers": requests.headers(setting.token)}, None),
    }
