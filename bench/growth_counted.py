"""Calls, items and units of a list, a read and an authentication in stores of ever more items: counted, not timed."""

from bench import calls, results, stores
from bench.calls import Call
from bench.engines import Setting
from bench.results import Result, Row


def measure(setting: Setting) -> Result:
    made = {size: _made(setting, size) for size in setting.stores}
    smallest, *others = made
    return Result(
        [_row(name, size, made[size][name], made[smallest][name]) for name in made[smallest] for size in others]
    )


def _made(setting: Setting, size: int) -> dict[str, list[Call]]:
    """Return the calls that each operation makes in the store of that size."""
    made = {}
    with stores.chosen(setting) as choose:
        choose(size)
        for name, operation in stores.operations(setting, size).items():
            with calls.recording() as made[name]:
                operation()
    return made


def _row(name: str, size: int, made: list[Call], before: list[Call]) -> Row:
    ratio = max(now / then for now, then in zip(_counts(made), _counts(before), strict=True))
    return results.exactly(f"{name}, {size:,} items, counted: 1,000", _said(made), _said(before), ratio)


def _counts(made: list[Call]) -> tuple[float, ...]:
    return len(made), sum(call.scanned for call in made), sum(call.capacity for call in made)


def _said(made: list[Call]) -> str:
    number, scanned, capacity = _counts(made)
    return f"{number} call, {scanned} read, {capacity:g} units"
