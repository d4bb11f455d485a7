"""Requests to AWS over kept connections: what a service may do to them, whom TLS trusts, and where a proxy is set."""

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore import exceptions

from chalicelib.storage.client import aws
from tests import openssl
from tests.storage.client.services import BROKEN_OFF, CHUNKED, LAST, NO_HTTP, SILENCE, WHOLE, Service, client


@pytest.fixture
def services() -> Iterator[list[Service]]:
    started: list[Service] = []
    yield started
    for service in started:
        service.close()


def count_retries(boto_client: Any) -> int:
    """Return how often a call was tried again until it was answered."""
    answer = boto_client.list_tables()
    assert answer["TableNames"] == []
    return int(answer["ResponseMetadata"]["RetryAttempts"])


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
def test_a_connection_is_kept(services: list[Service], answer: bytes) -> None:
    services.append(service := Service([answer]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    assert [count_retries(boto_client) for _ in range(3)] == [0, 0, 0]
    assert service.connections == 1
    assert service.requests[0].startswith(b"POST / HTTP/1.1\r\n")
    boto_client.close()


@pytest.mark.parametrize("answer", [WHOLE, LAST])
def test_a_connection_that_the_service_ended_is_not_used_again(services: list[Service], answer: bytes) -> None:
    services.append(service := Service([answer], ends=1))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    for _ in range(3):
        assert count_retries(boto_client) == 0
        assert service.ended.acquire(timeout=5)
    assert service.connections == 3


def test_a_transaction_whose_connection_ends_while_it_is_sent_is_sent_again_as_the_same(
    services: list[Service],
) -> None:
    services.append(service := Service([WHOLE, SILENCE, WHOLE], ends=2))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    boto_client.meta.events.register_last("before-parameter-build", aws.take_parameters)
    boto_client.meta.events.register_first("before-call.dynamodb.TransactWriteItems", aws.put_parameters)
    assert count_retries(boto_client) == 0
    assert boto_client.transact_write_items(TransactItems=[])["ResponseMetadata"]["RetryAttempts"] == 1
    first, second = (json.loads(request[request.index(b"{") :]) for request in service.requests[1:])
    assert first == second
    assert first["ClientRequestToken"]
    assert service.connections == 2


def test_after_a_connection_that_ended_unnoticed_a_new_one_is_used(services: list[Service]) -> None:
    services.append(service := Service([WHOLE, WHOLE, WHOLE, SILENCE, WHOLE], ends=2, at_once=3))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: count_retries(boto_client), range(3))) == [0, 0, 0]
    assert count_retries(boto_client) == 1
    assert service.connections == 4


def test_no_more_connections_are_kept_than_the_setting_says(services: list[Service]) -> None:
    services.append(service := Service([WHOLE], at_once=3))
    boto_client = client(f"http://127.0.0.1:{service.port}", pool_size=1)
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: count_retries(boto_client), range(3))) == [0, 0, 0]
    assert [service.ended.acquire(timeout=5) for _ in range(2)] == [True, True]
    assert count_retries(boto_client) == 0
    assert service.connections == 3


@pytest.mark.parametrize("answer", [BROKEN_OFF, NO_HTTP])
def test_what_is_no_whole_answer_is_asked_for_again(services: list[Service], answer: bytes) -> None:
    services.append(service := Service([answer, WHOLE]))
    assert count_retries(client(f"http://127.0.0.1:{service.port}")) == 1
    assert service.connections == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (BROKEN_OFF, exceptions.ConnectionClosedError),
        (NO_HTTP, exceptions.ConnectionClosedError),
        (SILENCE, exceptions.ReadTimeoutError),
    ],
)
def test_a_service_that_does_not_answer_is_told_by_botocores_errors(
    services: list[Service], answer: bytes, error: type[Exception]
) -> None:
    services.append(service := Service([answer]))
    with pytest.raises(error):
        client(f"http://127.0.0.1:{service.port}", attempts=1).list_tables()


def test_an_address_at_which_nothing_listens_is_out_of_reach(services: list[Service]) -> None:
    services.append(service := Service([WHOLE]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(exceptions.EndpointConnectionError):
            client(f"http://127.0.0.1:{free.getsockname()[1]}", attempts=1).list_tables()
    assert service.connections == 0


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate of an authority that nobody knows, and what a service of it serves with."""
    certificate_file, key = tmp_path / "own.pem", tmp_path / "key.pem"
    options = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost")
    openssl.run(
        "req",
        "-x509",
        *options,
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(key),
        "-out",
        str(certificate_file),
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate_file, key)
    return certificate_file, context


def test_a_certificate_of_an_unknown_authority_is_refused(
    services: list[Service], certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(setting, raising=False)
    services.append(service := Service([WHOLE], tls=certificate[1]))
    with pytest.raises(exceptions.SSLError):
        client(f"https://localhost:{service.port}", attempts=1).list_tables()
    assert service.requests == []


@pytest.mark.parametrize("setting", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_an_authority_that_a_setting_names_is_trusted(
    services: list[Service],
    certificate: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(setting, str(certificate[0]))
    services.append(service := Service([WHOLE], tls=certificate[1]))
    assert count_retries(client(f"https://localhost:{service.port}")) == 0


def test_a_proxy_that_a_setting_names_is_asked(services: list[Service], monkeypatch: pytest.MonkeyPatch) -> None:
    services.append(proxy := Service([WHOLE]))
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "")
    assert count_retries(client("http://dynamodb.example")) == 0
    assert proxy.requests[0].startswith(b"POST http://dynamodb.example/ HTTP/1.1\r\n")
