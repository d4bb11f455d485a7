"""Admins who switch one another off at once: one of them always stays."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.conftest import ROOT, Served
from tests.transports import Client, Http

RACES = 8
TWO_ADMINS = f"""
from chalicelib import ids
from chalicelib.operator import keys, owners
from chalicelib.operator.accounts import create_account
for _ in range({RACES}):
    account, first, token = create_account(ids.new("raced"), "first")
    second = owners.add_owner(account.id, "usr", "second", admin=True)
    print(first.id, token, second.id, keys.issue_key(account.id, second.id, "")[1])
"""


def pairs(served: Served) -> list[list[str]]:
    """Return the ids and tokens of the two admins of some new accounts."""
    command, environment = [sys.executable, "-c", TWO_ADMINS], {**os.environ, **served.cloud}
    made = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return [line.split() for line in made.stdout.splitlines()]


def test_of_two_admins_who_switch_each_other_off_at_once_one_stays(served: Served) -> None:
    with ThreadPoolExecutor(2) as threads:
        for first, token, second, other_token in pairs(served):
            one, other = (Client(Http(served.base_url)).with_token(it) for it in (token, other_token))
            begin = Barrier(2)

            def switch(client: Client, user: str, begin: Barrier = begin) -> int:
                begin.wait(timeout=30)
                return client.patch(f"/users/{user}", {"active": False}).status

            statuses = sorted(threads.map(switch, (one, other), (second, first)))
            assert statuses[0] == 200
            assert statuses[1] in (401, 409, 503), statuses  # before or after the other one, or while
            stays = [client for client in (one, other) if client.get("/users").status == 200]
            assert len(stays) == 1
            assert [user["active"] for user in stays[0].get("/users").json["users"]].count(True) == 1
