"""Envoy's questions to the sign-in service, and its answers, as messages."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2_grpc
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest
from google.protobuf.json_format import MessageToDict, ParseDict

from chalicelib.model.sign_in import signing_keys
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from edge.process.settings import Settings
from edge.sign_in import authorization
from edge.sign_in.authorization import AuthorizationServer
from edge.sign_in.passwords.password_checks import PasswordChecks
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.session import keys
from edge.sign_in.visits import Visit
from edge.sign_in.webhooks.webhook_checks import WebhookChecks
from tests.transports import Client


class Service:
    """Answers all visits in one way."""

    def __init__(self, reply: Forward | Reply) -> None:
        self.reply, self.visits = reply, list[Visit]()

    async def answer(self, visit: Visit) -> Forward | Reply:
        self.visits.append(visit)
        return self.reply


def check(service: Any, extensions: Mapping[str, str], **http: Any) -> Any:
    request = ParseDict(
        {
            "attributes": {
                "source": {"address": {"socket_address": {"address": "192.0.2.9", "port_value": 1}}},
                "request": {"http": http},
                "context_extensions": extensions,
            }
        },
        CheckRequest(),
    )
    server = AuthorizationServer(service, WebhookChecks(1024), PasswordChecks())
    return MessageToDict(asyncio.run(server.Check(request, None)))


def test_the_route_is_what_envoy_was_configured_with() -> None:
    service = Service(Reply(401, {"cache-control": "no-store"}, ["a=1"], "page"))
    configured = {"account": "acct_1", "edge": "edghts_1", "route": "edghtsrt_1", "aud": "edghtsrt_1.d"}
    headers = {"cookie": "a=b", "route": "other"}
    response = check(service, configured, method="GET", path="/a?b", host="App.example.com:8443", headers=headers)
    assert service.visits == [
        Visit(
            "GET", "/a?b", "app.example.com", "192.0.2.9", headers, "acct_1", "edghts_1", "edghtsrt_1", "edghtsrt_1.d"
        )
    ]
    assert response["status"] == {"code": 7}
    denied_response = response["deniedResponse"]
    assert (denied_response["status"], denied_response["body"]) == ({"code": "Unauthorized"}, "page")
    assert [header["header"] for header in denied_response["headers"]] == [
        {"key": "cache-control", "value": "no-store"},
        {"key": "set-cookie", "value": "a=1"},
    ]


def test_a_request_that_passes_gets_headers_for_the_upstream_and_a_cookie_for_the_browser() -> None:
    response = check(Service(Forward({"tunnel-auth-user-id": "1"}, ["a=1"])), {}, host="app.example.com:@evil.example")
    ok_response = response["okResponse"]
    assert [header["header"] for header in ok_response["headers"]] == [{"key": "tunnel-auth-user-id", "value": "1"}]
    assert [header["header"] for header in ok_response["responseHeadersToAdd"]] == [
        {"key": "set-cookie", "value": "a=1"}
    ]


def test_a_request_without_a_password_is_asked_for_one() -> None:
    response = check(None, {"account": "acct_1", "edge": "", "holder": "rd_1", "passwords": "d"}, headers={"a": "b"})
    denied_response = response["deniedResponse"]
    assert denied_response["status"] == {"code": "Unauthorized"}
    headers = {header["header"]["key"]: header["header"]["value"] for header in denied_response["headers"]}
    assert headers["www-authenticate"] == 'Basic realm="restricted", charset="UTF-8"'
    assert headers["cache-control"] == "no-store"
    assert "dynamicMetadata" not in response


def test_a_key_that_cannot_be_decrypted_closes_oauth_and_nothing_else(
    admin: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert keys.create(1)
    (pair,) = signing_keys.read()
    _replace_sealed(pair.kid, b"damaged")
    settings, lines = Settings(directory=tmp_path), list[str]()
    sign_in = {"account": "acct_1", "edge": "edghts_1"}
    password = {"account": "acct_1", "edge": "", "holder": "rd_1", "passwords": "d"}

    async def run() -> None:
        serving = asyncio.create_task(authorization.serve(settings))
        async with asyncio.timeout(10):
            while not any("oauth_unavailable" in line for line in lines):
                await asyncio.sleep(0.02)
                lines.append(capfd.readouterr().err)
            assert await _status(settings, sign_in) == 503
            assert await _status(settings, password) == 401
            _replace_sealed(pair.kid, pair.sealed)
            while await _status(settings, sign_in) != 400:  # the state is not one of the service
                await asyncio.sleep(0.02)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    asyncio.run(run())


def _replace_sealed(kid: str, sealed: bytes) -> None:
    exists = Condition("attribute_exists(#id)")
    dynamodb.do(Write.update(signing_keys.SCOPE, kid, exists, sets={"body.sealed": sealed}))


async def _status(settings: Settings, extensions: Mapping[str, str]) -> int:
    """Return the status of a request to the callback, as the service answers it at its socket."""
    http = {"method": "GET", "path": "/_service/callback?state=x", "host": "app.example.com"}
    request = ParseDict({"attributes": {"request": {"http": http}, "context_extensions": extensions}}, CheckRequest())
    async with grpc.aio.insecure_channel(f"unix:{settings.sign_in_socket}") as channel:
        answer = await external_auth_pb2_grpc.AuthorizationStub(channel).Check(request, timeout=5)
    return int(answer.denied_response.status.code)
