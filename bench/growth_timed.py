"""How the time of a list, a read and an authentication grows with the store, beyond what its raw calls grow by."""

from bench import calls, results, side_by_side, stores
from bench.engines import Setting
from bench.results import Point, Result, Row

ROUNDS = 100


def measure(setting: Setting) -> Result:
    rows: list[Row] = []
    points: list[Point] = []
    for name in ("list", "get", "authenticate"):
        times = _times(setting, name)
        for size, (ours, raw) in times.items():
            points += [
                Point("latency", name, size, ours * 1000),
                Point("latency", f"{name}, raw call", size, raw * 1000),
            ]
        smallest, *others = times
        for size in others:
            grown = [after / before for after, before in zip(times[size], times[smallest], strict=True)]
            figure = f"{name}, {size:,} items: {smallest:,}, its raw call's growth"
            rows.append(results.at_most(1.1, figure, grown[0], grown[1], results.growth))
    return Result(rows, points)


def _times(setting: Setting, name: str) -> dict[int, tuple[float, float]]:
    """Return the seconds of the operation and of its raw calls by size, measured alternately."""
    actions: list[stores.Operation] = []
    with stores.chosen(setting) as choose:
        for size in setting.stores:
            choose(size)
            operation = stores.operations(setting, size)[name]
            with calls.recording() as made:
                operation()

            def ours(size: int = size, operation: stores.Operation = operation) -> None:
                choose(size)
                operation()

            def raw(size: int = size, made: list[calls.Call] = made) -> None:
                choose(size)
                calls.repeat(made)

            actions += [ours, raw]
        taken = side_by_side.lower_quartiles(actions, ROUNDS)
    return {size: (taken[2 * place], taken[2 * place + 1]) for place, size in enumerate(setting.stores)}
