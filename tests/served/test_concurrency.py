"""A crowd of clients at once: nothing is lost or done twice. Races for one resource are in test_races.py."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from tests.conftest import Served
from tests.transports import Answer, Client, Http

CLIENTS = 16
REQUESTS = 800
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0Sz0pVBEkVqhwXdvjUVMJYOSSOOKaLQ9cUZC0TvJSh"
LISTS = {
    "/api_keys": "keys",
    "/ssh_certificate_authorities": "ssh_certificate_authorities",
    "/ssh_user_certificates": "ssh_user_certificates",
}


@dataclass
class Worker:
    """One client: does a random thing at a time, and knows what everything it made must look like."""

    client: Client
    chance: Random
    authority: str
    resources: dict[str, Any] = field(default_factory=dict)  # the whole body at each path
    deleted_paths: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)

    def work(self) -> "Worker":
        deeds = (self.make, self.read, self.change, self.remove, self.browse, self.err)
        for deed in self.chance.choices(deeds, weights=(25, 28, 20, 14, 8, 5), k=REQUESTS // CLIENTS):
            answer = deed() if self.resources else self.make()
            self.statuses[answer.status] += 1
        return self

    def make(self) -> Answer:
        path = self.chance.choice(list(LISTS))
        request = {"description": f"number {self.chance.random()}"}
        if path == "/ssh_user_certificates":
            request |= {"ssh_certificate_authority_id": self.authority, "public_key": KEY}
        answer = self.client.post(path, request)
        assert answer.status == 201, answer.text
        resource = answer.json
        address = f"{path}/{resource['id']}"
        if path == "/api_keys":
            self.tokens[address], resource["token"] = resource["token"], None
        self.resources[address] = resource
        return answer

    def read(self) -> Answer:
        address = self.chance.choice(list(self.resources))
        return self.expect(self.client.get(address), address)

    def change(self) -> Answer:
        address = self.chance.choice(list(self.resources))
        change = {self.chance.choice(["description", "metadata"]): f"changed {self.chance.random()}"}
        self.resources[address] |= change
        return self.expect(self.client.patch(address, change), address)

    def remove(self) -> Answer:
        address = self.chance.choice(list(self.resources))
        del self.resources[address]
        self.deleted_paths.append(address)
        answer = self.client.delete(address)
        assert (answer.status, answer.text) == (204, "")
        return answer

    def browse(self) -> Answer:
        path = self.chance.choice(list(LISTS))
        answer = self.client.get(f"{path}?limit=5")
        ids = [entry["id"] for entry in answer.json[LISTS[path]]]
        assert ids == sorted(set(ids), reverse=True)
        return answer

    def err(self) -> Answer:
        faults: list[Callable[[], Answer]] = [
            lambda: self.client.post("/api_keys", {"colour": "red"}),
            lambda: self.client.patch(self.chance.choice(list(self.resources)), {"description": "x" * 256}),
            lambda: self.client.post("/ssh_certificate_authorities", {"key_size": 2048, "private_key_type": "dsa"}),
            lambda: self.client.get(self.deleted_paths[-1] if self.deleted_paths else "/api_keys/none"),
            lambda: self.client.delete(self.deleted_paths[-1] if self.deleted_paths else "/api_keys/none"),
        ]
        answer = self.chance.choice(faults)()
        assert answer.status in (400, 404), answer.text
        return answer

    def lets_in(self, path: str) -> bool:
        answer = self.client.with_token(self.tokens[path]).get("/api_keys?limit=1")
        assert answer.status in (200, 401)
        return answer.status == 200

    def expect(self, answer: Answer, address: str) -> Answer:
        assert (answer.status, answer.json) == (200, self.resources[address])
        return answer


@dataclass(frozen=True)
class Crowd:
    """Sixteen clients of one account after their work."""

    host: Client
    workers: list[Worker]
    before: dict[str, Any]  # what was in the account when they came


@pytest.fixture(scope="module")
def crowd(served: Served) -> Crowd:
    host = served.newcomer().client()
    first_key = host.get("/api_keys").json["keys"][0]
    authority = host.create("/ssh_certificate_authorities", {"description": "signs for everyone"})
    clients = [replace(host, transport=Http(served.base_url)) for _ in range(CLIENTS)]
    workers = [Worker(client, Random(seed), authority["id"]) for seed, client in enumerate(clients)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        results = list(threads.map(Worker.work, workers))
    before = {f"/api_keys/{first_key['id']}": first_key, f"/ssh_certificate_authorities/{authority['id']}": authority}
    return Crowd(host, results, before)


def test_a_crowd_gets_no_answer_but_those_it_should(crowd: Crowd) -> None:
    statuses = sum((worker.statuses for worker in crowd.workers), Counter())
    assert statuses.total() == REQUESTS
    assert statuses.keys() == {200, 201, 204, 400, 404}


def test_a_crowd_loses_nothing_and_doubles_nothing(crowd: Crowd) -> None:
    expected = crowd.before | {path: body for worker in crowd.workers for path, body in worker.resources.items()}
    entries = [
        (f"{path}/{entry['id']}", entry) for path, items in LISTS.items() for entry in crowd.host.all(path, items)
    ]
    assert len(entries) == len(expected)
    assert dict(entries) == expected


def test_the_keys_a_crowd_kept_let_in_and_those_it_deleted_do_not(crowd: Crowd) -> None:
    for worker in crowd.workers:
        paths = [path for path in worker.resources if path in worker.tokens][:4]
        deleted = [path for path in worker.deleted_paths if path in worker.tokens][:4]
        assert [worker.lets_in(path) for path in paths + deleted] == [True] * len(paths) + [False] * len(deleted)
