"""Simultaneous requests for one resource: each is done once, whole, or refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.crypto import public_keys
from tests.conftest import ROOT, Served
from tests.refusals import assert_refused
from tests.samples import public_key
from tests.served.racing import at_once, statuses
from tests.transports import Answer, Client, Http, refusal

TIMES = 20
AUTHORITIES, USERS, BACKENDS = "/ssh_certificate_authorities", "/ssh_user_certificates", "/backends/weighted"
CREDENTIALS = "/ssh_credentials"
Request = Callable[[Client, str], tuple[str, dict[str, Any]]]


def build_request(authority: str) -> dict[str, str]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key()}


# The path and the body of a request that can be done once, given an authority.
ONCE: dict[str, Request] = {
    "revoke a serial": lambda _, id: (f"{AUTHORITIES}/{id}/revocations", {"serial": "1"}),
    "revoke a key": lambda _, id: (f"{AUTHORITIES}/{id}/revocations", {"public_key": public_key()}),
    "revoke a certificate": lambda client, id: (
        f"{AUTHORITIES}/{id}/revocations",
        {"ssh_user_certificate_id": client.create(USERS, build_request(id))["id"]},
    ),
    "make a credential": lambda _, __: (CREDENTIALS, {"public_key": public_key()}),
}


@pytest.mark.parametrize("request_of", ONCE.values(), ids=ONCE)
def test_a_request_with_an_idempotency_key_is_done_once(http: Client, request_of: Request) -> None:
    for _ in range(3):
        path, body = request_of(http, http.create(AUTHORITIES, {})["id"])
        key = ids.new("key")

        def send(path: str = path, body: Any = body, key: str = key) -> Answer:
            return http.send("POST", path, body, Idempotency_Key=key)

        answers = at_once([send] * TIMES)
        assert {answer.status for answer in answers} <= {201, 503}
        bodies = [answer.json for answer in answers if answer.status == 201]
        assert bodies == [bodies[0]] * len(bodies)
        assert all("retry-after" in answer.headers for answer in answers if answer.status == 503)
        assert send().json == bodies[0]


def anywhere() -> str:
    """Return the address of a module of an edge that no account has registered."""
    return f"/edges/tls/{ids.new('edgtls')}/mutual_tls"


def module(number: int) -> dict[str, Any]:
    return {"certificate_authority_ids": [f"ca_{number:027}"]}


def test_of_many_changes_under_one_tag_one_is_done(http: Client) -> None:
    creation = http.post(BACKENDS, {})
    address, tag = f"{BACKENDS}/{creation.json['id']}", creation.headers["etag"]
    codes = statuses(8, lambda number: http.send("PATCH", address, {"description": f"{number}"}, If_Match=tag))
    assert codes == [200] + [412] * 7


@pytest.mark.parametrize("condition", ["If_Match", "If_None_Match"])
def test_of_many_modules_put_under_one_condition_one_is_stored(http: Client, condition: str) -> None:
    address = anywhere()
    value = "*" if condition == "If_None_Match" else http.put(address, module(8)).headers["etag"]
    codes = statuses(8, lambda number: http.send("PUT", address, module(number), **{condition: value}))
    assert codes == [200] + [412] * 7


def test_a_recreated_module_is_not_overwritten_under_an_earlier_tag(http: Client) -> None:
    for _ in range(10):
        address = anywhere()
        tag = http.put(address, module(0)).headers["etag"]

        def act(number: int, address: str = address, tag: str = tag) -> Answer:
            if number:
                return http.send("PUT", address, module(1), If_Match=tag)
            assert http.delete(address).status == 204
            return http.put(address, module(2))

        assert {*statuses(8, act)} <= {200, 412}
        assert [authority["id"] for authority in http.get(address).json["certificate_authorities"]] == [f"ca_{2:027}"]


def test_changes_of_different_fields_are_both_kept(http: Client) -> None:
    address = f"{BACKENDS}/{http.create(BACKENDS, {})['id']}"
    for number in range(20):
        fields = ({"description": f"{number}"}, {"metadata": f"{number}"})
        assert {answer.status for answer in at_once([partial(http.patch, address, change) for change in fields])} == {
            200
        }
        assert http.get(address).json.items() >= (fields[0] | fields[1]).items()


@pytest.mark.parametrize("path", [BACKENDS, USERS])  # a certificate is also revoked
def test_of_many_deletions_one_is_done(http: Client, path: str) -> None:
    body = build_request(http.create(AUTHORITIES, {})["id"]) if path == USERS else {}
    for _ in range(2):
        address = f"{path}/{http.create(path, body)['id']}"
        answers = at_once([partial(http.delete, address)] * TIMES)
        assert sorted(answer.status for answer in answers) == [204] + [404] * (TIMES - 1)
        for answer in answers:
            if answer.status == 404:
                assert answer.json == refusal(answer)
                assert answer.json["error_code"] == "not_found"
        assert http.get(address).status == 404


def test_a_change_does_not_recreate_a_deleted_resource(http: Client) -> None:
    for _ in range(TIMES):
        address = f"/api_keys/{http.create('/api_keys', {})['id']}"
        delete, change = at_once([partial(http.delete, address), partial(http.patch, address, {"metadata": "x"})])
        assert (delete.status, change.status in (200, 404), http.get(address).status) == (204, True, 404)


def test_of_many_credentials_with_one_key_one_is_made(http: Client) -> None:
    key, rule = public_key(), {"public_key": "must be a value that no other resource uses"}
    answers = at_once([partial(http.post, CREDENTIALS, {"public_key": f"{key} {i}"}) for i in range(TIMES)])
    [new_credential] = [answer.json for answer in answers if answer.status == 201]
    for answer in answers:
        if answer.status == 503:  # it met the winner in the store
            assert answer.headers["retry-after"] == "1"
        elif answer.status != 201:
            assert_refused(answer, 409, "conflict", "'public_key' is in use already.", rule)
    credentials = [
        credential
        for credential in http.all(CREDENTIALS, "ssh_credentials")
        if credential["public_key"].startswith(key)
    ]
    assert credentials == [new_credential]


def test_changes_of_a_credential_are_all_kept_and_a_gateway_reads_the_same_rules(http: Client, served: Served) -> None:
    key = public_key()
    uri = f"{CREDENTIALS}/{http.create(CREDENTIALS, {'public_key': key})['id']}"
    changes: list[dict[str, Any]] = [{"acl": [f"bind:{i}.example"]} for i in range(8)]
    changes += [{name: f"{i}"} for i in range(4) for name in ("description", "metadata")]
    answers = at_once([partial(http.patch, uri, change) for change in changes])
    assert {answer.status for answer in answers} <= {200, 503}
    last = http.get(uri).json
    successes = [change for change, answer in zip(changes, answers, strict=True) if answer.status == 200]
    for field in ("acl", "description", "metadata"):
        assert last[field] in [change[field] for change in successes if field in change]
    assert json.loads(run(served, FIND, public_keys.fingerprint(key)))["acl"] == last["acl"]


FIND = (
    "import dataclasses, json, sys; from chalicelib.model.ssh.credentials import find_by_fingerprint; "
    "print(json.dumps(dataclasses.asdict(find_by_fingerprint(sys.argv[1]))))"
)
TWO_ADMINS = """
from chalicelib import ids
from chalicelib.operator import keys, owners
from chalicelib.operator.accounts import create_account
for _ in range(8):
    account, first, token = create_account(ids.new("raced"), "first")
    second = owners.add_owner(account.id, "usr", "second", admin=True)
    print(first.id, token, second.id, keys.issue_key(account.id, second.id, "")[1])
"""


def run(served: Served, program: str, *arguments: str) -> str:
    """Return what a Python program prints that uses the store of the served API."""
    command, environment = [sys.executable, "-c", program, *arguments], {**os.environ, **served.cloud}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_of_two_admins_who_switch_each_other_off_one_stays(served: Served) -> None:
    for line in run(served, TWO_ADMINS).splitlines():
        first, token, second, other_token = line.split()
        admins = [Client(Http(served.base_url)).with_token(admin_token) for admin_token in (token, other_token)]
        users = (second, first)
        switch = [partial(admins[index].patch, f"/users/{users[index]}", {"active": False}) for index in (0, 1)]
        lowest, highest = sorted(answer.status for answer in at_once(switch))
        assert (lowest, highest in (401, 409, 503)) == (200, True)  # before or after the other one, or while
        (stays,) = [client for client in admins if client.get("/users").status == 200]
        assert [user["active"] for user in stays.get("/users").json["users"]].count(True) == 1
