"""Many parallel writes in one account: conflicts, and units of each partition key.

No emulator models either like DynamoDB, so two stores of the tests add them to the embedded cloud.
"""

import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from bench import calls, requests, results, signing
from bench.calls import Call
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib import ids
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.changes import Change
from chalicelib.operator.keys import issue_key
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from tests.storage.conflicting import simulate_conflicts
from tests.storage.limited import UNITS, limit_units

WRITERS, EACH, CERTIFICATES = 32, 4, 1000
PATH = "/ssh_user_certificates"
_CONFLICTS = {"TransactionCanceledException", "TransactionConflictException"}
_READS = 3000  # read units per second of a partition key

T = TypeVar("T")
R = TypeVar("R")
Work = tuple[str, Mapping[str, Any]]  # a token, and the body of a request for a certificate
_fork = multiprocessing.get_context("fork")
_begin = _fork.Barrier(WRITERS)


def measure(setting: Setting) -> Result:
    # this call is forked too, because later forks must not share a connection to the store
    [body] = _fork_all(_authority, [setting.token])
    work = setting.token, body
    counts = sum(_fork_all(_write, [work] * WRITERS), Counter[str]())
    return Result([_row(f"{WRITERS} processes, embedded cloud", counts), _threads(setting), *_units(*work)])


def _fork_all(act: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Call a function in one process per value. Return the results. Raises TimeoutError after two minutes."""
    pool = _fork.Pool(len(values))
    try:
        return pool.map_async(act, values, chunksize=1).get(timeout=120)
    finally:
        pool.close()
        pool.join()  # ends its threads, which the next fork would copy


def _authority(token: str) -> dict[str, Any]:
    """Create an authority. Return a request for its certificate."""
    return signing.request(requests.create("/ssh_certificate_authorities", token, {})["id"])


def _write(work: Work) -> Counter[str]:
    """Create keys and certificates in parallel with other processes. Count successes and conflicts."""
    counted: Counter[str] = Counter()

    def on_response(response: tuple[Any, Mapping[str, Any]] | None, **_: object) -> None:
        error = response[1].get("Error", {}) if response else {}
        counted["conflicts"] += error.get("Code") in _CONFLICTS

    token, certificate = work
    aws.client("dynamodb").meta.events.register_first("needs-retry.dynamodb", on_response)
    _begin.wait(timeout=60)
    for _ in range(EACH):
        for path, body in (("/api_keys", {}), (PATH, certificate)):
            with suppress(RuntimeError):
                requests.create(path, token, body)
                counted["made"] += 1
    return counted


def _threads(setting: Setting) -> Row:
    """Measure as many threads, with DynamoDB's rules for conflicts of transactions."""
    account, user = setting.context["account"], setting.context["caller"]
    scope = items.scope(account, PATH)
    [signed], _ = table.read_page(scope, before=None, count=1)

    def write(number: int) -> None:
        issue_key(account, user, f"key {number}")
        Change(OPERATOR).put(Item(scope, ids.new("sucrt"), signed.body)).commit()

    with simulate_conflicts() as conflicts, ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    counted = Counter(made=conflicts.transaction_count, conflicts=conflicts.conflict_counts.total())
    return _row(f"{WRITERS} threads, DynamoDB's rules", counted, each=1)


def _row(writers: str, counted: Counter[str], each: int = EACH) -> Row:
    maximum, successes = 2 * each * WRITERS, counted["made"]
    ours, must = (f"{count} made, {met} conflicts" for count, met in ((successes, counted["conflicts"]), (maximum, 0)))
    return results.exactly(f"{writers}, keys and certificates of one account", ours, must, successes / maximum)


def _units(token: str, certificate: Mapping[str, Any]) -> list[Row]:
    """Compare the units of each partition key with the limits, for 1,000 certificates in a second."""
    with limit_units() as (spent, _), calls.recording() as trace:
        for _ in range(CERTIFICATES):
            requests.create(PATH, token, certificate)
    head = f"{CERTIFICATES:,} certificates of one account in a second"
    read = Counter[str]()
    for call in trace:
        read.update(_read(call))
    return [
        *_rows(f"{head}, written", spent, UNITS),
        *_rows(f"{head}, read", read, _READS),
    ]


def _rows(head: str, spent: Mapping[str, int], maximum: int) -> list[Row]:
    """Return a row for each kind of key, with the maximum of its keys."""
    kinds: dict[str, list[int]] = {}
    for key, count in spent.items():
        kinds.setdefault(_generalize(key), []).append(count)
    return [
        results.at_most(1, f"{head}: {kind}", max(counts), maximum, lambda count: f"{count:,.0f} units")
        for kind, counts in sorted(kinds.items())
    ]


def _read(call: Call) -> dict[str, int]:
    """Return the read units of a call by key. Each record is below 4 KB."""
    if call.operation == "GetItem":
        return {call.parameters["Key"]["scope"]["S"]: 1}
    if call.operation == "BatchGetItem":
        ((_, request),) = call.parameters["RequestItems"].items()
        return Counter(key["scope"]["S"] for key in request["Keys"])
    return {}


def _generalize(key: str) -> str:
    """Return a key without ids, and with N for the number of a shard."""
    without = re.sub(r"[a-z]+_[0-9A-Za-z]{27}|(?<=token#)\w+", "…", key)
    return re.sub(r"(?<=[/#])[0-9]+$", "N", without)
