"""One name wanted by sixteen accounts at once, for reservations, edges and tunnels: one has it, the others are told."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from chalicelib import ids
from tests.conftest import ROOT, Served
from tests.served.racing import at_once
from tests.transports import Client, Http

ACCOUNTS, ROUNDS = 16, 12
D = "tunnels.localhost"
FOUNDING = f"""
from chalicelib import ids
from chalicelib.operator.accounts import create_account
for _ in range({ACCOUNTS}):
    account, _, token = create_account(ids.new("racer"), "admin")
    print(account.id, token)
"""
# Opens a tunnel for each line of account and name: its id, or "" where the name is taken.
OPENING = """
import sys
from chalicelib import ids
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel
from chalicelib.storage.records.unique_keys import Taken
for line in sys.stdin:
    account, name = line.split()
    tunnel = AgentTunnel(tunnel_session=ids.new("ts"), endpoint=ids.new("ep"), region="eu", proto="https",
        public_url=f"https://{name}", forwards_to="192.0.2.1", gateway="gw-1", credential="sshcr_1")
    try:
        print(tunnels.open_tunnel(account, tunnel, lease=600, name=name), flush=True)
    except Taken:
        print("", flush=True)
"""


@pytest.fixture(scope="module")
def racers(served: Served) -> list[Client]:
    environment = {**os.environ, **served.cloud}
    process = subprocess.run(
        [sys.executable, "-c", FOUNDING], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in process.stdout.splitlines()]
    return [Client(Http(served.base_url), account=account).with_token(token) for account, token in lines]


@pytest.fixture
def opener(served: Served) -> Iterator[Callable[[str, str], bool]]:
    """Return what opens a tunnel of an account under a name, in processes of their own; False where it is taken."""
    environment = {**os.environ, **served.cloud}
    command = [sys.executable, "-c", OPENING]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    asking, answers = process.stdin, process.stdout

    def open_tunnel(account: str, name: str) -> bool:
        asking.write(f"{account} {name}\n")
        asking.flush()
        return answers.readline().strip() != ""

    yield open_tunnel
    asking.close()
    process.wait(timeout=30)


def test_one_of_sixteen_has_the_name_and_fifteen_are_told(
    racers: list[Client], opener: Callable[[str, str], bool]
) -> None:
    def attempt(index: int, name: str) -> bool:
        client = racers[index]
        if index == 0:
            return opener(client.account, name)
        if index % 2:
            answer = client.post("/reserved_domains", {"domain": name})
        else:
            answer = client.post("/edges/https", {"hostports": [f"x.{name}:443"]})
        assert answer.status in (201, 409), answer.text
        return answer.status == 201

    winners = set()
    for _ in range(ROUNDS):
        name = f"n{ids.strip_prefix(ids.new('n')).lower()}.{D}"
        successes = at_once([partial(attempt, index, name) for index in range(ACCOUNTS)])
        assert successes.count(True) == 1, json.dumps(successes)
        winners.add(successes.index(True))
    assert len(winners) > 1  # or it was no race
