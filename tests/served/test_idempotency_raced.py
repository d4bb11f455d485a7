"""Idempotency keys while one request comes many times at once: it is done once, and each is told what was made."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from chalicelib import ids
from tests import samples
from tests.transports import Answer, Client

TIMES, ROUNDS = 20, 5
AUTHORITIES, USERS = "/ssh_certificate_authorities", "/ssh_user_certificates"

Request = Callable[[Client, str], tuple[str, dict[str, Any]]]


def certificate(client: Client, authority: str) -> str:
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}
    return str(client.create(USERS, body)["id"])


# The path and the body of a request that can be done once, given an authority.
REQUESTS: dict[str, Request] = {
    "revoke a serial": lambda _, id: (f"{AUTHORITIES}/{id}/revocations", {"serial": "1"}),
    "revoke a key": lambda _, id: (f"{AUTHORITIES}/{id}/revocations", {"public_key": samples.public_key()}),
    "revoke a certificate": lambda client, id: (
        f"{AUTHORITIES}/{id}/revocations",
        {"ssh_user_certificate_id": certificate(client, id)},
    ),
    "make a credential": lambda _, __: ("/ssh_credentials", {"public_key": samples.public_key()}),
}


@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_comes_twenty_times_at_once_is_done_once(http: Client, request_of: Request) -> None:
    for _ in range(ROUNDS):
        path, body = request_of(http, http.create(AUTHORITIES, {})["id"])
        key, begin = ids.new("key"), Barrier(TIMES)

        def send(_: int, begin: Barrier = begin, path: str = path, body: Any = body, key: str = key) -> Answer:
            begin.wait(timeout=30)
            return http.send("POST", path, body, Idempotency_Key=key)

        with ThreadPoolExecutor(TIMES) as threads:
            answers = [*threads.map(send, range(TIMES))]
        assert {answer.status for answer in answers} <= {201, 503}
        made = [answer.json for answer in answers if answer.status == 201]
        assert made == [made[0]] * len(made)
        assert all("retry-after" in answer.headers for answer in answers if answer.status == 503)
        assert http.send("POST", path, body, Idempotency_Key=key).json == made[0]
