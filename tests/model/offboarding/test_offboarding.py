"""Offboarding from inside: its calls of the store, calls that are cut off, and what exchanges issued."""

from collections import Counter
from typing import Any

import pytest

from chalicelib import clock
from chalicelib.model.offboarding import tree_ends
from tests.federation import exchanges
from tests.model.offboarding.trees import (
    AUTHORITIES,
    CERTIFICATES,
    KEYS,
    advance_clock,
    build_request,
    child,
    key_of,
    offboard,
)
from tests.queries import calls, reads
from tests.storage.interrupting import before_transaction
from tests.transports import Client


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


def revocations(admin: Client, authority: str) -> int:
    return len(admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"])


def test_calls_of_the_store(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = child(admin)
    makers = [child(root), child(root, scopes=["ssh_user_certificates:create"])]
    child(root, scopes=["edges:write"])  # a key that can make nothing that ends with it
    for number in range(70):
        makers[number % 2].create(CERTIFICATES, build_request(authority))
    with calls() as operations:
        assert offboard(admin, f"{KEYS}/{key_of(root)}")["certificates"] == 70
    assert Counter(operations) == {
        "GetItem": 4,  # the caller's key, the root, whether events have shards, the head of the list
        "Query": 1 + 3 + 1,  # the newest events, each key that can make something, the list
        "BatchGetItem": 2 + 3,  # the keys to lock and to delete, the chunks of 30 certificates
        "TransactWriteItems": 1 + 1 + 3 + 3,  # root closed, keys locked, 30 certificates revoked, each key deleted
        "UpdateItem": 2,  # the last walk is postponed
    }
    advance_clock(monkeypatch)
    with calls() as operations:
        assert offboard(admin, f"{KEYS}/{key_of(root)}")["complete"] is True
    assert Counter(operations) == {"GetItem": 4, "Query": 5, "BatchGetItem": 2, "TransactWriteItems": 1}


def test_other_keys_of_the_account_are_not_read(admin: Client, member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> tuple[Counter[str], int]:
        owner = admin.create("/bot_users", {"name": f"bot{clock.seconds()}"})["id"]
        child(child(admin, owner_id=owner))
        advance_clock(monkeypatch, 300)  # the newest events are read
        with calls() as operations, reads() as items:
            assert offboard(admin, f"/bot_users/{owner}")["keys"] == 2
        return Counter(operations), sum(items)

    few = count()
    for _ in range(150):
        child(member)
    assert count() == few


def test_a_call_that_is_cut_off_is_repeated(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    root = child(admin)
    clients = [root, *(child(root) for _ in range(3))]
    for number in range(40):
        clients[number % 4].create(CERTIFICATES, build_request(authority))
    path = f"{KEYS}/{key_of(root)}"
    cut = 0
    while cut < 20:
        cut += 1
        try:
            with before_transaction(cut % 4 + 1, kill):
                if offboard(admin, path)["complete"]:
                    break
        except Killed:
            assert root.get("/me").status in (200, 401)
        advance_clock(monkeypatch)
    assert {client.get("/me").status for client in clients} == {401}
    assert revocations(admin, authority) == 40
    assert admin.get(path).status == 404


def test_a_walk_continues_where_its_time_ended(
    admin: Client, member: Client, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = admin.create("/bot_users", {"name": "bot"})["id"]
    clients = [child(admin, owner_id=member.user) for _ in range(5)]
    clients += [child(client) for client in clients]
    for client in clients:
        client.create(CERTIFICATES, build_request(authority))
    admin.create(KEYS, {"owner_id": bot})
    monkeypatch.setattr(tree_ends, "BUDGET", 0.15)
    reports: list[dict[str, Any]] = []
    while not (reports and reports[-1]["complete"]) and len(reports) < 100:
        reports.append(offboard(admin, f"/users/{member.user}"))
        advance_clock(monkeypatch)
    assert reports[-1]["complete"] is True
    assert (sum(report["keys"] for report in reports), sum(report["certificates"] for report in reports)) == (11, 10)
    assert {client.get("/me").status for client in clients} == {401}


def test_what_exchanges_issued_ends(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = admin.create("/users", {"name": "octo/demo"})["id"]
    scopes = ["api_keys:create", "ssh_user_certificates:create"]
    body = {**build_request(authority), "principals": ["root"]}
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        trusted = issuer.credential(admin, owner_claim="repository", scopes=scopes)["id"]
        other = issuer.credential(admin, scopes=scopes)["id"]
        other_key = exchanges.exchange(admin, issuer.token(other), other).json

        def issue(**more: Any) -> Any:
            token = issuer.token(trusted, repository="octo/demo", sub="me")
            answer = exchanges.exchange(admin, token, trusted, **more)
            assert answer.status == 200, answer.text
            return answer.json

        key = admin.with_token(issue()["access_token"])
        child_client = child(key)
        child_client.create(CERTIFICATES, build_request(authority))
        issue(certificate=body)
        first = offboard(admin, f"/users/{user}")
        assert (first["keys"], first["certificates"], first["federated_credentials"]) == (2, 2, 0)
        assert {client.get("/me").status for client in (key, child_client)} == {401}
        assert admin.get(f"/federated_credentials/{trusted}").json["enabled"] is True
        assert offboard(admin, f"/federated_credentials/{other}")["keys"] == 1
        assert admin.with_token(other_key["access_token"]).get("/me").status == 401
        token = issuer.token(other)
        assert exchanges.exchange(admin, token, other).json["error"] == "invalid_grant"
    assert revocations(admin, authority) == 2
