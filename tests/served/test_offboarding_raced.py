"""Offboarding while the keys of the tree make more: once it is complete, no key and no certificate is accepted."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served
from tests.samples import public_key
from tests.transports import Answer, Client

KEYS, CERTIFICATES, AUTHORITIES = "/api_keys", "/ssh_user_certificates", "/ssh_certificate_authorities"
CHILDREN, SIGNED, RACING = 49, 200, 20
MOST = 60  # seconds until it is complete


def signing(authority: str) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key()}


def tree(root: Client) -> list[Client]:
    """Return the root and clients with 49 keys, each made by an earlier one."""
    clients = [root]
    for number in range(CHILDREN):
        maker = clients[number // 3]
        clients.append(root.with_token(maker.create(KEYS, {})["token"]))
    return clients


def act_on(client: Client, authority: str, number: int) -> list[Answer]:
    """Sign ten certificates, some with keys that are made meanwhile; return the answers."""
    answers = []
    for _ in range(10):
        answers.append(client.post(CERTIFICATES, signing(authority)))
        if number % 5 == 0:
            answers.append(made := client.post(KEYS, {}))
            client = client.with_token(made.json["token"]) if made.status == 201 else client
    return answers


def offboard(admin: Client, key: str) -> list[dict[str, Any]]:
    """Offboard a key until it is complete; return what each call answered."""
    told: list[dict[str, Any]] = []
    until = time.monotonic() + MOST
    while not (told and told[-1]["complete"]):
        assert time.monotonic() < until, told
        answer = admin.post(f"{KEYS}/{key}/offboard", {})
        assert answer.status == 200, answer.text
        told.append(answer.json)
        time.sleep(told[-1]["retry_after"])
    return told


def passing(folder: Path, krl: bytes, certificates: list[str]) -> list[int]:
    """Return the places of the certificates that ssh-keygen does not find in the list."""
    (folder / "krl").write_bytes(krl)
    for place, line in enumerate(certificates):
        (folder / f"{place}.pub").write_text(f"{line}\n")
    names = [f"{place}.pub" for place in range(len(certificates))]
    asked = subprocess.run(
        ["ssh-keygen", "-Q", "-f", "krl", *names], cwd=folder, capture_output=True, text=True, timeout=60
    )
    verdicts = [line.rpartition(": ")[2] for line in asked.stdout.splitlines()]
    assert len(verdicts) == len(certificates), asked.stdout + asked.stderr
    return [place for place, verdict in enumerate(verdicts) if verdict != "REVOKED"]


@pytest.mark.timeout(180)
def test_nothing_of_a_tree_outlives_an_offboarding_that_races_with_it(served: Served, tmp_path: Path) -> None:
    admin = served.newcomer().client()
    authority = admin.create(AUTHORITIES, {})["id"]
    other = admin.create(CERTIFICATES, signing(authority))["certificate"]
    made = admin.create(KEYS, {})
    clients = tree(admin.with_token(made["token"]))
    signed = [clients[number % 50].create(CERTIFICATES, signing(authority)) for number in range(SIGNED)]

    with ThreadPoolExecutor(RACING) as threads:
        racing = [threads.submit(act_on, client, authority, number) for number, client in enumerate(clients[-RACING:])]
        told = offboard(admin, made["id"])
    answers = [answer for each in racing for answer in each.result()]
    assert {answer.status for answer in answers} == {201, 401}
    new = [answer.json for answer in answers if answer.status == 201]
    clients += [admin.with_token(each["token"]) for each in new if "token" in each]
    assert {client.get("/me").status for client in clients} == {401}
    certificates = [each["certificate"] for each in [*signed, *new] if "certificate" in each]
    krl = admin.send("GET", f"{AUTHORITIES}/{authority}/krl", Accept="application/octet-stream").content
    assert passing(tmp_path, krl, certificates) == []
    assert passing(tmp_path, krl, [other]) == [0]
    assert sum(each["certificates"] for each in told) == len(certificates)
    assert sum(each["keys"] for each in told) == len(clients)
