"""Simultaneous requests for one SSH key: it serves one credential, and a gateway sees the rules that were last set."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from chalicelib.crypto import public_keys
from tests.conftest import ROOT, Served
from tests.refusals import assert_refused
from tests.samples import public_key
from tests.transports import Answer, Client

PATH = "/ssh_credentials"
TAKEN = {"public_key": "must be a value that nothing else uses"}


def at_once(tasks: list[Any]) -> list[Answer]:
    barrier = Barrier(len(tasks))
    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(lambda task: (barrier.wait(), task())[1], tasks))


def test_of_twenty_simultaneous_creations_of_one_key_exactly_one_succeeds(http: Client) -> None:
    key = public_key()
    answers = at_once([lambda i=i: http.post(PATH, {"public_key": f"{key} {i}"}) for i in range(20)])
    [created] = [answer.json for answer in answers if answer.status == 201]
    for answer in answers:
        if answer.status == 503:  # it met the winner in the store
            assert answer.headers["retry-after"] == "1"
        elif answer.status != 201:
            assert_refused(answer, 409, "conflict", "'public_key' is in use already.", TAKEN)
    stored = [one for one in http.all(PATH, "ssh_credentials") if one["public_key"].startswith(key)]
    assert stored == [created]


def test_simultaneous_changes_lose_nothing_and_the_gateway_sees_the_same_rules(http: Client, served: Served) -> None:
    key = public_key()
    uri = f"{PATH}/{http.create(PATH, {'public_key': key})['id']}"
    new_rules: list[dict[str, Any]] = [{"acl": [f"bind:{i}.example"]} for i in range(8)]
    others: list[dict[str, Any]] = [{"description": f"d{i}"} for i in range(4)] + [
        {"metadata": f"m{i}"} for i in range(4)
    ]
    answers = at_once([lambda change=change: http.patch(uri, change) for change in new_rules + others])
    assert {answer.status for answer in answers} <= {200, 503}
    last = http.get(uri).json
    done = [change for change, answer in zip(new_rules + others, answers, strict=True) if answer.status == 200]
    for field in ("acl", "description", "metadata"):
        assert last[field] in [change[field] for change in done if field in change]
    assert seen_by_gateway(served, key)["acl"] == last["acl"]


def seen_by_gateway(served: Served, key: str) -> Any:
    """Return the result of find_by_fingerprint in a process of its own, on the embedded cloud."""
    program = (
        "import dataclasses, json, sys; from chalicelib.model.ssh.credentials import find_by_fingerprint; "
        "print(json.dumps(dataclasses.asdict(find_by_fingerprint(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", program, public_keys.fingerprint(key)]
    environment = {**os.environ, **served.cloud}
    answer = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=30)
    return json.loads(answer.stdout)
