"""A list, a read and an authentication in stores of growing size.

The numbers of calls, items and units must stay the same. Times may grow little more than the times of the raw calls.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench import calls, requests, results, side_by_side
from bench.calls import Call
from bench.engines import Setting
from bench.results import Point, Result, Row
from chalicelib.authorizer import authorize
from chalicelib.storage.client import aws

ROUNDS = 100


def measure(setting: Setting) -> Result:
    counted: list[Row] = []
    timed: list[Row] = []
    points: list[Point] = []
    smallest, *larger_sizes = setting.stores
    with _redirect(setting) as choose:
        for name, operation in _operations(setting).items():
            traces = {size: _record_calls(choose, operation, size) for size in setting.stores}
            times = _times(choose, operation, traces)
            for size, (ours, raw) in times.items():
                points.append(Point("latency", name, size, ours * 1000))
                points.append(Point("latency", f"{name}, raw call", size, raw * 1000))
            for size in larger_sizes:
                counted.append(
                    _compare_calls(f"{name}, {size:,} items, counted: 1,000", traces[size], traces[smallest])
                )
                grown = [after / before for after, before in zip(times[size], times[smallest], strict=True)]
                figure = f"{name}, {size:,} items: {smallest:,}, its raw call's growth"
                timed.append(results.at_most(1.1, figure, grown[0], grown[1], results.growth))
    return Result([*counted, *timed], points)


@contextmanager
def _redirect(setting: Setting) -> Iterator[Callable[[int], None]]:
    """Yield a function that redirects all calls of the service's client to the store of a size."""
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


def _operations(setting: Setting) -> dict[str, Callable[[int], object]]:
    """Return operations on a store: read a page of 100, an entry, or a token's caller."""

    def get(path: str) -> Any:
        return requests.answer(requests.event("GET", path, setting.token, context=setting.context))

    return {
        "list": lambda size: get(f"/backends/weighted?before_id={setting.entry(size // 4)}"),
        "get": lambda size: get(f"/backends/weighted/{setting.entry(size // 4)}"),
        "authenticate": lambda _: authorize({"headers": requests.headers(setting.token)}, None),
    }


def _record_calls(choose: Callable[[int], None], operation: Callable[[int], object], size: int) -> list[Call]:
    """Return the calls of an operation in the store of a size."""
    choose(size)
    with calls.recording() as trace:
        operation(size)
    return trace


def _times(
    choose: Callable[[int], None], operation: Callable[[int], object], traces: dict[int, list[Call]]
) -> dict[int, tuple[float, float]]:
    """Return the seconds of an operation and of its raw calls, by size."""

    def ours(size: int) -> None:
        choose(size)
        operation(size)

    def raw(size: int) -> None:
        choose(size)
        calls.repeat(traces[size])

    actions = [partial(action, size) for size in traces for action in (ours, raw)]
    taken = side_by_side.lower_quartiles(actions, ROUNDS)
    return dict(zip(traces, zip(taken[::2], taken[1::2], strict=True), strict=True))


def _compare_calls(figure: str, trace: list[Call], smaller_trace: list[Call]) -> Row:
    ratio = max(now / then for now, then in zip(_counts(trace), _counts(smaller_trace), strict=True))
    return results.exactly(figure, _describe(trace), _describe(smaller_trace), ratio)


def _counts(trace: list[Call]) -> tuple[float, ...]:
    return len(trace), sum(call.scanned for call in trace), sum(call.capacity for call in trace)


def _describe(trace: list[Call]) -> str:
    number, scanned, capacity = _counts(trace)
    return f"{number} call, {scanned} read, {capacity:g} units"
