"""Store calls of a request, the caller looked up too: counted, not timed."""

from collections import Counter

from bench import calls, requests, results
from bench.engines import Setting
from bench.results import Result, Row

FEWEST = {
    "get": Counter(read=2),
    "list of 100": Counter(read=2),
    "create": Counter(read=1, write=1),
    "certificate": Counter(read=2, write=1),  # the second: the authority, and whether it has revoked the public key
}


def measure(setting: Setting) -> Result:
    made = requests.usual(setting.token)
    return Result([_row(name, fewest, made[name](0)) for name, fewest in FEWEST.items()])


def _row(name: str, must: Counter[str], event: dict[str, object]) -> Row:
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event)
    counted = Counter(call.kind for call in made)
    ratio = counted.total() / must.total()
    return results.exactly(f"store calls, {name}: the fewest", _said(counted), _said(must), ratio)


def _said(counted: Counter[str]) -> str:
    return ", ".join(f"{counted[kind]} {kind}" for kind in sorted(counted))
