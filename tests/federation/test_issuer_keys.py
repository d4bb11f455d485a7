"""The keys of issuers in the table: one fetch at a time, one hour fresh, one day more if the issuer is unreachable."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib import clock
from chalicelib.federation import issuer_keys
from chalicelib.federation.issuer_keys import IssuerNotAllowed, IssuerUnreachable
from chalicelib.federation.key_sets import KeySet
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from tests.federation import signing
from tests.federation.issuer_server import IssuerServer, be_silent, response, serve_issuer

BOTH = ["/.well-known/openid-configuration", "/keys"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[IssuerServer]:
    with serve_issuer() as server:
        monkeypatch.setenv("OIDC_ISSUERS", f"{server.url}= {server.url}/*=")
        yield server


def read(server: IssuerServer) -> dict[str, Any] | None:
    return dynamodb.get(*issuer_keys.key_of(server.url))


def find(server: IssuerServer, kid: str | None = "rsa") -> KeySet:
    return issuer_keys.find(server.url, kid, read(server))


def age(server: IssuerServer, seconds: int) -> None:
    """Make the cached set older by some seconds."""
    record = read(server) or {}
    times = {"turn": record["turn"] - seconds, "body.fetched": record["body"]["fetched"] - seconds}
    dynamodb.do(Write.update(*issuer_keys.key_of(server.url), Condition(""), sets=times))


def test_keys_are_fetched_once_and_cached(server: IssuerServer) -> None:
    expected = KeySet.parse({"keys": [signing.rsa_jwk()]})
    assert [find(server), find(server), find(server, None)] == [expected] * 3
    assert server.paths == BOTH


def test_old_keys_are_fetched_again(server: IssuerServer) -> None:
    find(server)
    age(server, issuer_keys.FRESH)
    server.publish(signing.ed_jwk(), signing.rsa_jwk())
    assert [key["kid"] for key in find(server).keys] == ["ed", "rsa"]
    assert server.paths == BOTH * 2


def test_an_unknown_kid_causes_one_fetch_a_minute(server: IssuerServer) -> None:
    find(server)
    for _ in range(20):
        assert find(server, "other").find("other") is None
    assert server.paths == BOTH
    age(server, issuer_keys.PAUSE)
    server.publish(signing.rsa_jwk(), signing.ed_jwk())
    assert find(server, "ed").find("ed") is not None
    assert [find(server, f"other{index}").find("other") for index in range(20)] == [None] * 20
    assert server.paths == BOTH * 2


def test_cached_keys_outlive_an_outage_by_a_day(server: IssuerServer) -> None:
    find(server)
    server.answers["/keys"] = response("503 Service Unavailable")
    age(server, issuer_keys.USABLE - 5)
    assert find(server).find("rsa") is not None
    assert find(server).find("rsa") is not None
    assert server.paths == BOTH * 2  # the second attempt is a minute later
    with pytest.raises(IssuerUnreachable, match="another process did not fetch the issuer's keys in time"):
        find(server, "other")
    age(server, issuer_keys.PAUSE)
    with pytest.raises(IssuerUnreachable, match="status 503"):
        find(server)


def test_parallel_exchanges_fetch_once(server: IssuerServer) -> None:
    key_sets: list[KeySet] = []
    threads = [threading.Thread(target=lambda: key_sets.append(find(server))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert key_sets == [KeySet.parse({"keys": [signing.rsa_jwk()]})] * 16
    assert server.paths == BOTH


def test_others_use_the_cached_set_during_a_fetch(server: IssuerServer) -> None:
    find(server)
    age(server, issuer_keys.FRESH)
    key = issuer_keys.key_of(server.url)
    dynamodb.do(Write.update(*key, Condition(""), sets={"turn": clock.seconds()}))
    assert find(server).find("rsa") is not None
    assert server.paths == BOTH


@pytest.mark.parametrize("path", BOTH)
def test_a_silent_issuer_is_unreachable_in_time(server: IssuerServer, path: str) -> None:
    server.answers[path] = be_silent
    started = time.monotonic()
    with pytest.raises(IssuerUnreachable, match="TimeoutError"):
        find(server)
    with pytest.raises(IssuerUnreachable):
        find(server)
    assert time.monotonic() - started < 2 * issuer_keys.TURN


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"issuer": "https://gitlab.com"}, "must name this issuer in the field issuer"),
        ([], "must name this issuer in the field issuer"),
        ({}, "the OpenID configuration must have a URL in the field jwks_uri"),
        ({"jwks_uri": 1}, "the OpenID configuration must have a URL in the field jwks_uri"),
        ({"jwks_uri": "file:///etc/passwd"}, "url"),
        ({"jwks_uri": "http://keys.example/"}, "not https"),
        ({"jwks_uri": "https://127.0.0.2/keys"}, "the host of the URL must have only public addresses"),
        ({"jwks_uri": "https://127.0.0.1:1/keys"}, "the host of the URL must have only public addresses"),
        ({"jwks_uri": "https://169.254.169.254/latest"}, "the host of the URL must have only public addresses"),
    ],
)
def test_an_odd_discovery_document_is_refused(server: IssuerServer, document: Any, reason: str) -> None:
    server.documents[BOTH[0]] = {"issuer": server.url, **document} if isinstance(document, dict) else document
    with pytest.raises(IssuerUnreachable, match=reason):
        find(server)
    assert server.paths == BOTH[:1]


def test_an_issuer_that_is_no_longer_allowed_is_not_asked(
    server: IssuerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(server)
    monkeypatch.setenv("OIDC_ISSUERS", "https://gitlab.com=")
    with pytest.raises(IssuerNotAllowed):
        find(server)
    assert server.paths == BOTH


def test_a_malformed_record_is_fetched_again(server: IssuerServer) -> None:
    scope, id = issuer_keys.key_of(server.url)
    dynamodb.do(Write.put({"scope": scope, "id": id, "body": {"issuer": server.url, "keys": "", "fetched": 1}}))
    assert find(server).find("rsa") is not None


def test_the_path_of_an_issuer_precedes_the_well_known_path(server: IssuerServer) -> None:
    issuer = f"{server.url}/a"
    server.documents[f"/a{BOTH[0]}"] = {"issuer": issuer, "jwks_uri": f"{server.url}/keys"}
    assert issuer_keys.find(issuer, "rsa", None).find("rsa") is not None
    assert server.paths == [f"/a{BOTH[0]}", "/keys"]
