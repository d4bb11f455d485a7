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


def build_request(authority: str) -> dict[str, Any]:
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
        answers.append(client.post(CERTIFICATES, build_request(authority)))
        if number % 5 == 0:
            answers.append(answer := client.post(KEYS, {}))
            client = client.with_token(answer.json["token"]) if answer.status == 201 else client
    return answers


def offboard(admin: Client, key: str) -> list[dict[str, Any]]:
    """Offboard a key until it is complete; return what each call answered."""
    reports: list[dict[str, Any]] = []
    until = time.monotonic() + MOST
    while not (reports and reports[-1]["complete"]):
        assert time.monotonic() < until, reports
        answer = admin.post(f"{KEYS}/{key}/offboard", {})
        assert answer.status == 200, answer.text
        reports.append(answer.json)
        time.sleep(reports[-1]["retry_after"])
    return reports


def find_passing(folder: Path, krl: bytes, certificates: list[str]) -> list[int]:
    """Return the places of the certificates that ssh-keygen does not find in the list."""
    (folder / "krl").write_bytes(krl)
    for index, line in enumerate(certificates):
        (folder / f"{index}.pub").write_text(f"{line}\n")
    names = [f"{index}.pub" for index in range(len(certificates))]
    process = subprocess.run(
        ["ssh-keygen", "-Q", "-f", "krl", *names], cwd=folder, capture_output=True, text=True, timeout=60
    )
    verdicts = [line.rpartition(": ")[2] for line in process.stdout.splitlines()]
    assert len(verdicts) == len(certificates), process.stdout + process.stderr
    return [index for index, verdict in enumerate(verdicts) if verdict != "REVOKED"]


@pytest.mark.timeout(180)
def test_nothing_of_a_tree_outlives_an_offboarding_that_races_with_it(served: Served, tmp_path: Path) -> None:
    admin = served.newcomer().client()
    authority = admin.create(AUTHORITIES, {})["id"]
    other = admin.create(CERTIFICATES, build_request(authority))["certificate"]
    key = admin.create(KEYS, {})
    clients = tree(admin.with_token(key["token"]))
    creations = [clients[number % 50].create(CERTIFICATES, build_request(authority)) for number in range(SIGNED)]

    with ThreadPoolExecutor(RACING) as threads:
        racing = [threads.submit(act_on, client, authority, number) for number, client in enumerate(clients[-RACING:])]
        reports = offboard(admin, key["id"])
    answers = [answer for future in racing for answer in future.result()]
    assert {answer.status for answer in answers} == {201, 401}
    new = [answer.json for answer in answers if answer.status == 201]
    clients += [admin.with_token(creation["token"]) for creation in new if "token" in creation]
    assert {client.get("/me").status for client in clients} == {401}
    certificates = [creation["certificate"] for creation in [*creations, *new] if "certificate" in creation]
    krl = admin.send("GET", f"{AUTHORITIES}/{authority}/krl", Accept="application/octet-stream").content
    assert find_passing(tmp_path, krl, certificates) == []
    assert find_passing(tmp_path, krl, [other]) == [0]
    assert sum(report["certificates"] for report in reports) == len(certificates)
    assert sum(report["keys"] for report in reports) == len(clients)
