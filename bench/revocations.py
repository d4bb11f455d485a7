"""Revocation lists as servers fetch them, compared with the lists of `ssh-keygen -k`."""

import base64
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from app import app
from bench import calls, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Point, Result, Row
from chalicelib import clock
from chalicelib.crypto import packed_revocations
from chalicelib.crypto.packed_revocations import RevokedSerial
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write

COUNTS, ROUNDS = (1, 1_000, 10_000, 100_000), 5
MOST_SECONDS, MOST_BYTES = 2.0, 6 * 2**20  # CPU for the longest list; Lambda's limit of an answer
_CHUNKS = 64


def measure(setting: Setting) -> Result:
    rows: list[Row] = []
    points: list[Point] = []
    for count in COUNTS:
        ours, keygen, size, keygen_size, unchanged = _measure(setting, count)
        figure = f"{count:,} revocation{'s' * (count > 1)}"
        rows.append(results.reported(f"{figure}, CPU: ssh-keygen -k", ours, keygen, results.ms))
        rows.append(results.at_most(1.01, f"{figure}, size: ssh-keygen -k", size, keygen_size, results.kib))
        for line, cpu, length in (("GET …/krl", ours, size), ("ssh-keygen -k", keygen, keygen_size)):
            points.append(Point("revocations", line, count, cpu * 1000))
            points.append(Point("revocation_sizes", line, count, length / 2**10))
    sent = len(base64.b64encode(bytes(size)))
    rows.append(results.at_most(1, "… the longest, CPU: 2 s", ours, MOST_SECONDS, results.ms))
    rows.append(results.at_most(1, "… the longest, in base64: what Lambda answers", sent, MOST_BYTES, results.mib))
    rows.append(results.exactly("… the longest, unchanged: the fewest calls", unchanged, "304, 1 read", 1))
    rows.append(
        results.exactly("10 full lists together, refused: the fewest calls", _measure_merged(setting), "409, 1 read", 1)
    )
    return Result(rows, points)


def _measure_merged(setting: Setting) -> str:
    """Return the status and calls of a request for ten lists with heads of full lists."""
    ids = [requests.create("/ssh_certificate_authorities", setting.token, {})["id"] for _ in range(10)]
    for id in ids:
        _count(id, COUNTS[-1])
    with calls.recording("dynamodb", "kms") as trace:
        status = _fetch(f"/ssh_certificate_authorities/{ids[0]}/krl", also=ids[1:])["statusCode"]
    return f"{status}, {', '.join(f'1 {call.kind}' for call in trace)}"


def _measure(setting: Setting, count: int) -> tuple[float, float, int, int, str]:
    """Measure a list of `count` serials.

    Return the CPU seconds of service and ssh-keygen, the bytes of both lists, and the calls for an unchanged list.
    """
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})
    serials = Random(count).sample(range(1, 2**63), count)
    _fill(authority["id"], serials)
    fetch = partial(_fetch, f"/ssh_certificate_authorities/{authority['id']}/krl")
    ours, keygens = [], []
    with TemporaryDirectory() as folder:
        command = _keygen(Path(folder), authority["public_key"], serials)
        for _ in range(ROUNDS):
            before = time.process_time()
            answer = fetch()
            ours.append(time.process_time() - before)
            before = side_by_side.cpu_of_children()
            subprocess.run(command, check=True)
            keygens.append(side_by_side.cpu_of_children() - before)
        keygen_size = Path(folder, "krl").stat().st_size
    with calls.recording("dynamodb", "kms") as trace:
        status = fetch(answer["headers"]["ETag"])["statusCode"]
    unchanged = f"{status}, {', '.join(f'1 {call.kind}' for call in trace)}"
    return median(ours), median(keygens), len(base64.b64decode(answer["body"])), keygen_size, unchanged


def _fetch(path: str, etag: str = "", also: Sequence[str] = ()) -> Mapping[str, Any]:
    """Fetch a list, with the lists of other authorities in `also`, unless it still has the ETag."""
    event = requests.event("GET", path, "")
    event["multiValueQueryStringParameters"] = {"also": [",".join(also)]} if also else None
    event["headers"] = {"Accept": "application/octet-stream", **({"If-None-Match": etag} if etag else {})}
    answered: Mapping[str, Any] = app(event, None)
    return answered


def _fill(authority: str, serials: Sequence[int]) -> None:
    """Write serials directly into an authority's list: 100,000 requests would take minutes."""
    scope, fields = f"krl#{authority}", {"revision": 1, "stamp": "1", "changed_at": clock.seconds()}
    for chunk in range(min(_CHUNKS, len(serials))):
        packed = packed_revocations.pack(RevokedSerial(serial, None) for serial in serials[chunk::_CHUNKS])
        dynamodb.do(Write.put({**fields, "scope": scope, "id": f"{chunk:02x}", "packed": packed}))
    _count(authority, len(serials))


def _count(authority: str, count: int) -> None:
    exists = Condition("attribute_exists(#id)")
    dynamodb.do(Write.update(f"krl#{authority}", "head", exists, sets={"count": count, "stamp": "1"}))


def _keygen(folder: Path, public_key: str, serials: Sequence[int]) -> list[str]:
    """Write the input files of ssh-keygen. Return the command that makes the same list."""
    krl, authority, specification = folder / "krl", folder / "ca.pub", folder / "specification"
    authority.write_text(f"{public_key}\n")
    specification.write_text("".join(f"serial: {serial}\n" for serial in serials))
    return ["ssh-keygen", "-q", "-k", "-f", str(krl), "-s", str(authority), str(specification)]
