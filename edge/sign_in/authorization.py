"""Serves Envoy's external authorization (ext_authz) over gRPC, as the process `python -m edge sign-in`."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, cast

import grpc
from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.service.auth.v3 import external_auth_pb2_grpc
from envoy.service.auth.v3.external_auth_pb2 import (
    CheckRequest,
    CheckResponse,
    DeniedHttpResponse,
    OkHttpResponse,
)
from envoy.type.v3.http_status_pb2 import HttpStatus, StatusCode
from google.rpc.status_pb2 import Status

from chalicelib.storage import vault
from chalicelib.storage.client import aws
from edge.envoy.filters.sign_in import OWN_HOST
from edge.process import files, log, metrics, tasks
from edge.process.settings import Settings
from edge.process.tasks import PeriodicTask
from edge.sign_in import replies, visits
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.passwords.password_checks import PasswordAnswer, PasswordChecks, PasswordRequest
from edge.sign_in.provider import endpoints
from edge.sign_in.provider.limits import ExchangeLimits
from edge.sign_in.provider.provider_client import ProviderClient
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.service import SignInService
from edge.sign_in.sign_in_link import SignInLink
from edge.sign_in.sign_in_metrics import SignInMetrics
from edge.sign_in.sign_in_records import REFRESH, SignInRecords
from edge.sign_in.visits import Visit
from edge.sign_in.webhooks.webhook_checks import Webhook, WebhookChecks

_MAX_HEADERS = 1 << 20  # the most bytes of an ext_authz request, not counting the body of the visitor's request
_OUTCOMES = {429: "stopped"}
_FAILURES = (aws.AwsError, vault.Unreadable)
_PERMISSION_DENIED = 7  # PERMISSION_DENIED in google.rpc.Code


class AuthorizationServer(external_auth_pb2_grpc.AuthorizationServicer):  # type: ignore[misc]  # no type hints
    """Answers Envoy's checks of sessions, passwords and webhooks."""

    def __init__(self, service: SignInService, webhooks: WebhookChecks, passwords: PasswordChecks) -> None:
        self._service, self._webhooks, self._passwords = service, webhooks, passwords

    async def Check(self, request: CheckRequest, context: Any) -> CheckResponse:
        """Decide whether to forward a visitor's request, which Envoy describes.

        The result is that decision, or a response to the visitor.
        """
        if "passwords" in request.attributes.context_extensions:
            return _password_response(await self._passwords.check(_password(request)))
        if "webhook" in request.attributes.context_extensions:
            return _response(replies.webhook(await self._webhooks.check(_webhook(request))))
        return _response(await self._service.answer(_visit(request)))


async def serve(settings: Settings) -> None:
    """Serve until cancelled. If the store does not answer, requests get 503. Raises SettingError."""
    records, counts = SignInRecords(), SignInMetrics()
    client = _build_client(settings, counts)
    service = _build_service(settings, records, client, counts)
    largest = settings.limits.max_webhook_kib << 10
    answering = AuthorizationServer(service, WebhookChecks(largest), PasswordChecks())
    refreshing = PeriodicTask("sign_in_records", partial(_refresh, records), REFRESH, failures=_FAILURES)
    try:
        async with _serve_host(settings, answering), metrics.serve_at_socket(settings.sign_in_metrics_socket, counts):
            await tasks.run_all(refreshing.run(), _serve_others(settings, answering, counts))
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _serve_host(settings: Settings, answering: AuthorizationServer) -> AsyncIterator[None]:
    """Serve the Envoy of this host at a Unix socket."""
    server = _build_server(settings)
    external_auth_pb2_grpc.add_AuthorizationServicer_to_server(answering, server)
    settings.sign_in_socket.unlink(missing_ok=True)
    with files.shorten_socket_path(settings.sign_in_socket) as path:
        server.add_insecure_port(f"unix:{path}")
        await server.start()
    settings.sign_in_socket.chmod(0o660)
    try:
        yield
    finally:
        await server.stop(grace=2)


async def _serve_others(settings: Settings, answering: AuthorizationServer, counts: SignInMetrics) -> None:
    """Serve the Envoys of other hosts if SIGN_IN_PORT is set. Serve Prometheus if METRICS_BY is "sign-in"."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    link = SignInLink(_build_server(settings), answering, f"{host}:{settings.sign_in_port}")
    async with contextlib.AsyncExitStack() as stack:
        if settings.metrics_port and settings.metrics_by == "sign-in":
            processes, checks = {"sign-in": counts.read}, [link.find_unready]
            at_port = metrics.serve_at_port(settings.metrics_host, settings.metrics_port, processes, checks)
            await stack.enter_async_context(at_port)
        await (link.serve() if settings.sign_in_port else asyncio.Event().wait())


def _build_server(settings: Settings) -> grpc.aio.Server:
    largest = settings.limits.max_webhook_kib << 10
    return grpc.aio.server(options=[("grpc.max_receive_message_length", largest + _MAX_HEADERS)])


def _build_client(settings: Settings, counts: SignInMetrics) -> ProviderClient:
    limits = settings.limits
    return ProviderClient(
        timeout=limits.oauth_exchange_timeout,
        call_timeout=limits.oauth_provider_timeout,
        clock=time.time,
        watch_date=counts.on_date,
    )


def _build_service(
    settings: Settings, records: SignInRecords, client: ProviderClient, counts: SignInMetrics
) -> SignInService:
    providers = endpoints.read(settings.oauth_endpoints)
    limits = ExchangeLimits(settings.limits.max_oauth_exchanges)
    dependencies = Dependencies(records, client, providers, limits, time.time, counts)
    return SignInService(dependencies, settings.url(settings.sign_in_host))


async def _refresh(records: SignInRecords) -> None:
    try:
        await records.refresh()
    except _FAILURES as error:
        log.event("oauth_unavailable", reason=str(error))
        raise


def _visit(request: CheckRequest) -> Visit:
    http = request.attributes.request.http
    extensions = request.attributes.context_extensions
    return Visit(
        method=http.method,
        path=http.path,
        host=visits.read_host(http.host),
        address=request.attributes.source.address.socket_address.address,
        headers=dict(http.headers),
        account=extensions.get("account", ""),
        edge=extensions.get("edge", ""),
        route=extensions.get("route", ""),
        audience=extensions.get("aud", ""),
        is_of_service=dict(extensions) == OWN_HOST,
    )


def _password(request: CheckRequest) -> PasswordRequest:
    configured = request.attributes.context_extensions
    return PasswordRequest(
        account=configured.get("account", ""),
        edge=configured.get("edge", ""),
        owner=configured.get("holder", ""),
        digest=configured["passwords"],
        address=request.attributes.source.address.socket_address.address,
        authorization=request.attributes.request.http.headers.get("authorization", ""),
    )


def _password_response(answer: PasswordAnswer) -> CheckResponse:
    """Return the response to a password check.

    The metadata of the response contains the result of the check. Envoy's script caches this result for the visitor's
    next requests.
    """
    response = _response(replies.password(answer.status, answer.retry_after))
    outcome = "right" if answer.status == 200 and answer.is_current else _OUTCOMES.get(answer.status, "")
    if outcome:
        response.dynamic_metadata["password"] = outcome
    return response


def _webhook(request: CheckRequest) -> Webhook:
    http, configured = request.attributes.request.http, request.attributes.context_extensions
    return Webhook(
        account=configured.get("account", ""),
        edge=configured.get("edge", ""),
        route=configured.get("route", ""),
        digest=configured["webhook"],
        headers=[(header.key, header.raw_value) for header in http.header_map.headers],
        body=http.raw_body,
    )


def _response(answer: Forward | Reply) -> CheckResponse:
    cookies = [_option("set-cookie", cookie, append=True) for cookie in answer.cookies]
    if isinstance(answer, Forward):
        headers = _options(answer.headers)
        return CheckResponse(
            status=Status(code=0), ok_response=OkHttpResponse(headers=headers, response_headers_to_add=cookies)
        )
    denied = DeniedHttpResponse(
        status=HttpStatus(code=cast("StatusCode.ValueType", answer.status)),
        headers=[*_options(answer.headers), *cookies],
        body=answer.body,
    )
    return CheckResponse(status=Status(code=_PERMISSION_DENIED), denied_response=denied)


def _options(headers: Mapping[str, str]) -> list[HeaderValueOption]:
    return [_option(name, value, append=False) for name, value in headers.items()]


def _option(name: str, value: str, *, append: bool) -> HeaderValueOption:
    action = HeaderValueOption.APPEND_IF_EXISTS_OR_ADD if append else HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return HeaderValueOption(header=HeaderValue(key=name, value=value), append_action=action)
