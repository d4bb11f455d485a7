"""SSH authorities while many act at once: no list lacks what was acknowledged, no policy is passed by."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pytest

from tests import samples
from tests.conftest import Served
from tests.live.ssh import krls
from tests.live.ssh.keygen import Certificate
from tests.transports import Client, Http

CLIENTS = 8
AUTHORITIES, USERS = "/ssh_certificate_authorities", "/ssh_user_certificates"


@dataclass
class Server:
    """A server's state between its requests, and each answer with the changes acknowledged before it was asked for."""

    client: Client
    etag: str = ""
    krl: bytes = b""
    fetched: dict[bytes, set[int]] = field(default_factory=dict)

    def fetch(self, path: str, acknowledged: set[int]) -> None:
        headers = {"Accept": "application/octet-stream", "If_None_Match": self.etag}
        answer = self.client.send("GET", path, **headers)
        assert answer.status in (200, 304), answer.text
        if answer.status == 200:
            self.etag, self.krl = answer.headers["etag"], answer.content
        self.fetched.setdefault(self.krl, set()).update(acknowledged)


@pytest.fixture(scope="module")
def clients(served: Served) -> list[Client]:
    """Clients of one fresh account, each with connections of its own."""
    host = served.newcomer().client()
    return [replace(host, transport=Http(served.base_url)) for _ in range(CLIENTS)]


@pytest.mark.needs("ssh")
def test_each_list_that_is_fetched_meanwhile_holds_all_that_was_acknowledged_before(
    clients: list[Client], tmp_path: Path
) -> None:
    authority = clients[0].create(AUTHORITIES, {})["id"]
    path, acknowledged = f"{AUTHORITIES}/{authority}", set[int]()
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}

    def revoke(number: int) -> Server:
        server = Server(clients[number])
        serial = 1 + number
        server.client.create(f"{path}/revocations", {"serial": str(serial)})
        acknowledged.add(serial)
        server.fetch(f"{path}/krl", set(acknowledged))
        certificate = server.client.create(USERS, body)
        assert server.client.delete(f"{USERS}/{certificate['id']}").status == 204
        acknowledged.add(Certificate.of(certificate["certificate"]).serial)
        server.fetch(f"{path}/krl", set(acknowledged))
        return server

    with ThreadPoolExecutor(CLIENTS) as threads:
        servers = list(threads.map(revoke, range(CLIENTS)))
    assert len(acknowledged) == 2 * CLIENTS
    for server in servers:
        for content, before in server.fetched.items():
            assert before <= krls.serials(tmp_path, content)


def test_a_request_that_begins_after_a_policy_was_put_obeys_it(clients: list[Client]) -> None:
    admin, *signers = clients
    authority, put = admin.create(AUTHORITIES, {})["id"], Event()
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key(), "principals": ["root"]}

    def sign(client: Client) -> Iterator[tuple[bool, int]]:
        """Yield whether the policy was there when a request began, and the status of its answer."""
        until = time.monotonic() + 20
        obeyed = 0
        while obeyed < 3 and time.monotonic() < until:
            was_put = put.is_set()
            status = client.post(USERS, body).status
            obeyed += was_put
            yield was_put, status

    def change() -> None:
        time.sleep(0.3)
        assert admin.put(f"{AUTHORITIES}/{authority}/policy", {"user": {"allowed_principals": ["ops"]}}).status == 200
        put.set()

    with ThreadPoolExecutor(CLIENTS) as threads:
        future = threads.submit(change)
        outcomes = [answer for answers in threads.map(lambda signer: list(sign(signer)), signers) for answer in answers]
        future.result()
    assert {status for was_put, status in outcomes if was_put} == {400}
    assert {status for was_put, status in outcomes if not was_put} <= {201, 400}
    assert (False, 201) in outcomes
