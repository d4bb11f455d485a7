"""Exchanges at the same moment: a user is created once, a token is used once, and the keys of an issuer rotate."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from chalicelib.model.accounts.federated_credentials import MAX_COUNT
from tests.conftest import remember_stored, serve
from tests.federation import issuer_server, signing
from tests.federation.exchanges import CREDENTIALS, Issuer, exchange
from tests.refusals import assert_refused
from tests.served.racing import at_once, statuses
from tests.transports import Answer, Client

TIMES = 16


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Issuer]]:
    """Serve an API that allows an issuer on loopback."""
    with issuer_server.serve_issuer() as server:
        process, api = serve(tmp_path_factory.mktemp("raced") / "local", OIDC_ISSUERS=f"{server.url}=repository_id")
        yield api.client(), Issuer(server)
        remember_stored(api)
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


def test_one_user_is_created(raced: tuple[Client, Issuer]) -> None:
    admin, issuer = raced
    credential = _people(admin, issuer)
    for number in range(3):
        claims = {"email": f"ada{number}@example.com", "email_verified": True, "sub": f"ada{number}"}
        token = issuer.token(credential, **claims)
        answers = at_once([partial(exchange, admin, token, credential)] * TIMES)
        assert {answer.status for answer in answers} == {200}
        assert len({answer.json["owner"]["id"] for answer in answers}) == 1
    names = [user["name"] for user in admin.get("/users").json["users"]]
    assert sorted(name for name in names if name.startswith("ada")) == [
        f"ada{number}@example.com" for number in range(3)
    ]


def test_one_of_two_people_gets_a_name(raced: tuple[Client, Issuer]) -> None:
    admin, issuer = raced
    credential = _people(admin, issuer)
    claims = {"email": "eve@example.com", "email_verified": True}
    tokens = [issuer.token(credential, sub=f"eve{number}", **claims) for number in range(TIMES)]
    answers = at_once([partial(exchange, admin, token, credential) for token in tokens])
    assert sorted(answer.status for answer in answers) == [200] + [400] * (TIMES - 1)


def test_a_token_is_used_once(raced: tuple[Client, Issuer]) -> None:
    admin, issuer = raced
    credential = issuer.credential(admin, owner_id=_owner(admin), single_use=True)["id"]
    token = issuer.token(credential, jti="raced")
    answers = at_once([partial(exchange, admin, token, credential)] * TIMES)
    assert sorted(answer.status for answer in answers) == [200] + [400] * (TIMES - 1)


def test_no_valid_token_is_rejected_for_longer_than_a_minute_while_keys_rotate(raced: tuple[Client, Issuer]) -> None:
    admin, issuer = raced
    credential = issuer.credential(admin, owner_id=_owner(admin))["id"]
    assert exchange(admin, issuer.token(credential), credential).status == 200
    issuer.server.publish(signing.ec_jwk())
    fetched, rotated = len(issuer.server.paths), time.monotonic()

    def send() -> Answer:
        payload = issuer.payload(credential)
        return exchange(admin, signing.token({"alg": "ES256", "kid": "ec"}, payload, signing.sign_es256), credential)

    accepted = False
    while not accepted and time.monotonic() < rotated + 70:
        answers = at_once([send] * TIMES)
        accepted = {answer.status for answer in answers} == {200}
        time.sleep(0 if accepted else 1)
    assert accepted
    assert time.monotonic() - rotated < 62
    assert len(issuer.server.paths) - fetched <= 4  # of two documents, at most once a minute


def test_parallel_creations_do_not_exceed_the_limit_of_federated_credentials(raced: tuple[Client, Issuer]) -> None:
    admin, issuer = raced
    body, count = issuer.fields(owner_id=_owner(admin)), len(admin.get(CREDENTIALS).json["federated_credentials"])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: admin.create(CREDENTIALS, body), range(MAX_COUNT - TIMES // 2 - count)))
    assert statuses(TIMES, lambda _: admin.post(CREDENTIALS, body)) == [201] * (TIMES // 2) + [409] * (TIMES // 2)
    full = "An account has at most 200 federated credentials."
    assert_refused(admin.post(CREDENTIALS, body), 409, "conflict", full)
    last = admin.get(CREDENTIALS).json["federated_credentials"][0]
    assert admin.delete(f"{CREDENTIALS}/{last['id']}").status == 204
    assert admin.post(CREDENTIALS, body).status == 201


def _people(admin: Client, issuer: Issuer) -> str:
    credential = issuer.credential(admin, owner_claim="email", provision=True, max_lifetime=60)
    return str(credential["id"])


def _owner(admin: Client) -> str:
    return str(admin.get("/me").json["owner"]["id"])
