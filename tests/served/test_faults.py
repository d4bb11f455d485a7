"""The store and the key service fail behind the API: clear 503s while it lasts, recovery, and never half a change."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.storage.client import dynamodb
from infra.local.cloud import Cloud
from tests.conftest import Served, client_of, free_port, serve
from tests.needs import need
from tests.refusals import is_clear
from tests.served.proxy import Fault, Proxy
from tests.transports import Answer, Client, key_in

GATEWAY_PATIENCE = 29  # seconds
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0Sz0pVBEkVqhwXdvjUVMJYOSSOOKaLQ9cUZC0TvJSh"
KEYS, AUTHORITIES, CERTIFICATES = "/api_keys", "/ssh_certificate_authorities", "/ssh_user_certificates"

# What the store's writes meet, by a word that stands in the description of what is created then.
WRITES = {
    "cut": [Fault.CUT],
    "delay": [Fault.DELAY],
    "late": [Fault.LATE],
    "silence": [Fault.SILENCE],
    "empty": [Fault.EMPTY],
    "garbled": [Fault.GARBLED],
    "mixed": [Fault.NONE, Fault.CUT, Fault.LATE, Fault.NONE, Fault.DELAY, Fault.EMPTY, Fault.SILENCE, Fault.GARBLED],
}


@dataclass(frozen=True)
class Site:
    """The API with a proxy between it and its store."""

    api: Served
    proxy: Proxy
    store: Mapping[str, str]

    def records(self) -> list[dict[str, Any]]:
        """Everything in the table, read past the proxy."""
        pages = client_of(self.store, "dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
        return [dynamodb.decode(item) for page in pages for item in page["Items"]]


@dataclass(frozen=True)
class Attempt:
    """A request made while something failed, and its outcome."""

    description: str
    answer: Answer
    seconds: float


@dataclass
class Aftermath:
    """Requests made while writes failed in different ways, all at once, to spare the waiting."""

    creations: dict[str, list[Attempt]] = field(default_factory=dict)
    unsealed: Attempt | None = None  # an authority, without the key service
    unsigned: Attempt | None = None  # a certificate, without the key service
    slow: Attempt | None = None  # a certificate, each of its calls answered at the third attempt


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need("the embedded cloud")
    folder, port = tmp_path_factory.mktemp("faults"), free_port()
    with ExitStack() as cleanup:
        store = Cloud(folder / "cloud", port)
        cleanup.callback(store.stop)
        store.start()
        proxy = Proxy(port)
        cleanup.callback(proxy.close)
        process, api = serve(folder / "local", **store.settings | {"AWS_ENDPOINT_URL": proxy.url})
        cleanup.callback(process.wait, timeout=30)
        cleanup.callback(process.terminate)
        yield Site(api, proxy, store.settings)


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    return site.api.client()


@pytest.fixture(scope="module")
def fresh(site: Site) -> Iterator[Client]:
    """Yield the same account at an API which has seen no failure yet: boto3 retries less after many."""
    process, api = serve(site.api.local.with_name("fresh"), **site.api.cloud)
    yield api.client()
    process.terminate()
    process.wait(timeout=30)


def attempt(client: Client, path: str, request: dict[str, Any]) -> Attempt:
    started = time.monotonic()
    answer = client.post(path, request)
    return Attempt(request["description"], answer, time.monotonic() - started)


@pytest.fixture
def requests(client: Client) -> list[tuple[str, str, Any, int]]:
    """Return one request of every kind, with the status it has when all is well."""
    keys = [f"{KEYS}/{client.create(KEYS, {})['id']}" for _ in range(2)]
    authority = client.create(AUTHORITIES, {})["id"]
    return [
        ("GET", KEYS, None, 200),
        ("GET", keys[0], None, 200),
        ("POST", KEYS, {"description": "while it failed"}, 201),
        ("PATCH", keys[0], {"description": "while it failed"}, 200),
        ("DELETE", keys[1], None, 204),
        ("POST", AUTHORITIES, {}, 201),
        ("DELETE", f"{AUTHORITIES}/{authority}", None, 204),
        ("POST", CERTIFICATES, {"ssh_certificate_authority_id": authority, "public_key": KEY}, 201),
    ]


def send_all(client: Client, requests: list[tuple[str, str, Any, int]]) -> list[Answer]:
    """Send all of them at once, twice; return the answers, none of which may come too late for the gateway."""

    def send(request: tuple[str, str, Any, int]) -> Answer:
        started = time.monotonic()
        answer = client.send(*request[:3])
        assert time.monotonic() - started < GATEWAY_PATIENCE
        return answer

    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(send, requests * 2))


def assert_recovered(client: Client, requests: list[tuple[str, str, Any, int]]) -> None:
    for *request, status in reversed(requests):  # the certificate before its authority goes
        answer = client.send(*request)
        assert answer.status == status, answer.text


def test_while_the_store_refuses_connections_every_answer_is_a_clear_503(
    site: Site, client: Client, requests: list[tuple[str, str, Any, int]]
) -> None:
    with site.proxy.refuse():
        answers = send_all(client, requests)
    assert all(map(is_clear, answers)), answers
    assert_recovered(client, requests)


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.SILENCE, Fault.EMPTY, Fault.GARBLED])
def test_while_the_store_breaks_off_is_silent_or_lies_every_answer_is_a_clear_503(
    site: Site, client: Client, requests: list[tuple[str, str, Any, int]], fault: Fault
) -> None:
    with site.proxy.fail(fault):
        answers = send_all(client, requests)
    assert all(map(is_clear, answers)), answers
    assert_recovered(client, requests)


@pytest.mark.parametrize(("operation", "method"), [("GetItem", "GET"), ("TransactWriteItems", "PATCH")])
@pytest.mark.parametrize("fault", [Fault.CUT, Fault.EMPTY, Fault.GARBLED])
def test_an_answer_that_breaks_off_or_lies_is_never_taken_for_a_whole_one(
    site: Site, client: Client, operation: str, method: str, fault: Fault
) -> None:
    key = client.create(KEYS, {"metadata": "unchanged"})
    path = f"{KEYS}/{key['id']}"
    bodies = [{"metadata": str(number)} if method == "PATCH" else None for number in range(30)]
    with site.proxy.fail(fault, marks=(operation, "/api_keys")), ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda body: client.send(method, path, body), bodies))
    assert all(map(is_clear, answers)), answers
    stored_key = client.get(path).json
    assert stored_key == {**key, "token": None, "metadata": stored_key["metadata"]}
    assert stored_key["metadata"] in [body["metadata"] for body in bodies if body] + ["unchanged"]
    assert client.with_token(key["token"]).get(f"{KEYS}?limit=1").status == 200


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.EMPTY, Fault.GARBLED])
def test_a_list_that_breaks_off_or_lies_is_never_taken_for_a_whole_one(
    site: Site, client: Client, fault: Fault
) -> None:
    with site.proxy.fail(fault, marks=("Query", "/api_keys")), ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.get(f"{KEYS}?limit=1"), range(30)))
    assert all(map(is_clear, answers)), answers


@pytest.mark.parametrize("fault", [Fault.EMPTY, Fault.GARBLED])
def test_a_valid_key_is_never_denied_because_the_store_lies(site: Site, client: Client, fault: Fault) -> None:
    with (
        site.proxy.fail(fault, marks=("GetItem", key_in(client.token).removeprefix("ak_"))),
        ThreadPoolExecutor(8) as threads,
    ):
        answers = list(threads.map(lambda _: client.get(KEYS), range(10)))
    assert all(map(is_clear, answers)), answers


def test_a_fault_that_passes_before_the_api_gives_up_is_not_seen(site: Site, fresh: Client) -> None:
    with site.proxy.fail(Fault.CUT, Fault.NONE):
        key = fresh.create(KEYS, {"description": "at the second attempt"})
        assert fresh.get(f"{KEYS}/{key['id']}").json == {**key, "token": None}


@pytest.fixture(scope="module")
def aftermath(site: Site, client: Client, fresh: Client) -> Aftermath:
    after = Aftermath()
    dumb, slow = [client.create(AUTHORITIES, {})["id"] for _ in range(2)]
    flapping = [Fault.DELAY, Fault.DELAY, Fault.SLOW]
    with ExitStack() as failures, ThreadPoolExecutor(48) as threads:
        for word, faults in WRITES.items():
            marks = ("TransactWriteItems", f"meets {word}")
            failures.enter_context(site.proxy.fail(*faults, marks=marks))
        failures.enter_context(site.proxy.fail(Fault.SILENCE, marks=("TrentService.Encrypt",)))
        failures.enter_context(site.proxy.fail(Fault.SILENCE, marks=("TrentService.Decrypt", dumb)))
        for mark in (key_in(fresh.token).removeprefix("ak_"), slow):
            failures.enter_context(site.proxy.fail(*flapping, marks=(mark,)))

        late = threads.submit(attempt, fresh, CERTIFICATES, signed_by(slow, "slow"))
        unsealed = threads.submit(attempt, client, AUTHORITIES, {"description": "unsealed"})
        unsigned = threads.submit(attempt, client, CERTIFICATES, signed_by(dumb, "unsigned"))
        tried = {
            word: [threads.submit(attempt, client, KEYS, request) for request in build_bodies(word)] for word in WRITES
        }
        after.creations = {word: [future.result() for future in futures] for word, futures in tried.items()}
        after.unsealed, after.unsigned, after.slow = unsealed.result(), unsigned.result(), late.result()
    site.proxy.settle()
    return after


def signed_by(authority: str, description: str) -> dict[str, str]:
    return {"description": description, "ssh_certificate_authority_id": authority, "public_key": KEY}


def build_bodies(word: str) -> list[dict[str, str]]:
    return [{"description": f"meets {word} {number}"} for number in range(28 if word == "mixed" else 4)]


@pytest.mark.parametrize("word", ["cut", "delay", "late", "silence", "empty", "garbled"])
def test_a_creation_whose_every_write_fails_is_a_clear_503(aftermath: Aftermath, word: str) -> None:
    answers = [creation.answer for creation in aftermath.creations[word]]
    assert all(map(is_clear, answers)), answers


def test_a_creation_whose_writes_fail_now_and_then_is_answered_or_a_clear_503(aftermath: Aftermath) -> None:
    answers = [creation.answer for creation in aftermath.creations["mixed"]]
    assert all(answer.status == 201 or is_clear(answer) for answer in answers), answers
    assert 201 in {answer.status for answer in answers}


def test_what_was_answered_is_there_whole(client: Client, aftermath: Aftermath) -> None:
    keys = [
        attempt.answer.json
        for attempts in aftermath.creations.values()
        for attempt in attempts
        if attempt.answer.status == 201
    ]
    key_by_id = {key["id"]: key for key in client.all(KEYS, "keys")}
    for key in keys:
        assert key_by_id[key["id"]] == {**key, "token": None}
        assert client.with_token(key["token"]).get(f"{KEYS}/{key['id']}").json == key_by_id[key["id"]]


def test_what_was_not_answered_is_there_whole_or_not_at_all(site: Site, client: Client, aftermath: Aftermath) -> None:
    records = site.records()
    keys = {record["id"] for record in records if record["id"].startswith("ak_")}
    id_by_scope = {record["scope"]: record["holder"] for record in records if record["scope"].startswith("token#")}
    assert id_by_scope == {f"token#{id.removeprefix('ak_')}": id for id in keys}
    assert {key["id"] for key in client.all(KEYS, "keys")} == keys
    described = [key["description"] for key in client.all(KEYS, "keys")]
    requested = [creation.description for creations in aftermath.creations.values() for creation in creations]
    assert all(described.count(description) <= 1 for description in requested)


def test_without_the_key_service_an_authority_is_a_clear_503_and_leaves_nothing(
    site: Site, client: Client, aftermath: Aftermath
) -> None:
    assert aftermath.unsealed
    assert is_clear(aftermath.unsealed.answer)
    authorities = list(client.all(AUTHORITIES, "ssh_certificate_authorities"))
    assert "unsealed" not in [authority["description"] for authority in authorities]
    authority_ids = {record["id"] for record in site.records() if record["id"].startswith("sshca_")}
    assert authority_ids == {authority["id"] for authority in authorities}
    assert client.create(AUTHORITIES, {})["key_type"] == "ed25519"


def test_without_the_key_service_a_certificate_is_a_clear_503_and_leaves_nothing(
    client: Client, aftermath: Aftermath
) -> None:
    assert aftermath.unsigned
    assert is_clear(aftermath.unsigned.answer)
    certificates = list(client.all(CERTIFICATES, "ssh_user_certificates"))
    assert "unsigned" not in [certificate["description"] for certificate in certificates]


def test_a_request_that_must_try_everything_again_and_again_ends_in_time(client: Client, aftermath: Aftermath) -> None:
    assert aftermath.slow
    answer = aftermath.slow.answer
    assert answer.status == 201 or is_clear(answer)
    descriptions = [certificate["description"] for certificate in client.all(CERTIFICATES, "ssh_user_certificates")]
    assert descriptions.count("slow") == (answer.status == 201)


def test_no_answer_comes_too_late_for_the_gateway(aftermath: Aftermath) -> None:
    attempts = [creation for creations in aftermath.creations.values() for creation in creations]
    attempts += [attempt for attempt in (aftermath.unsealed, aftermath.unsigned, aftermath.slow) if attempt]
    assert max(attempt.seconds for attempt in attempts) < GATEWAY_PATIENCE
