"""Serves the sign-in service to Envoys on other hosts, by mutual TLS.

Both sides have certificates of the stored CA for connections between hosts.
"""

import asyncio
from typing import Any

import grpc
from envoy.service.auth.v3 import external_auth_pb2_grpc
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from chalicelib.model.sign_in import link_pairs
from chalicelib.model.sign_in.link_pairs import LinkPair
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from chalicelib.storage.records.decoding import MalformedRecord
from edge.link.server import CLIENT
from edge.process import log
from edge.process.tasks import PeriodicTask

REFRESH = 5.0  # seconds between two reads of the stored key pair
FAILURES = (aws.AwsError, MalformedRecord, vault.Unreadable)
_NAMES = "x509_subject_alternative_name"


class SignInLink:
    """The gRPC server for Envoys on other hosts.

    It begins to listen when control has stored a TLS key pair for this server.
    """

    def __init__(
        self, server: grpc.aio.Server, answering: external_auth_pb2_grpc.AuthorizationServicer, address: str
    ) -> None:
        self._server, self._address = server, address
        self._pair: LinkPair | None = None
        # the configuration that gRPC has not received yet, or None
        self._pending: grpc.ServerCertificateConfiguration | None = None
        self._is_listening = False
        external_auth_pb2_grpc.add_AuthorizationServicer_to_server(_EnvoyOnly(answering), server)

    async def serve(self) -> None:
        """Serve until cancelled. While a new key pair cannot be read, the previous one stays in use."""
        try:
            await PeriodicTask("sign_in_link", self._refresh, REFRESH, failures=FAILURES).run()
        finally:
            await self._server.stop(grace=2)

    async def find_unready(self) -> str:
        """Return why Envoys on other hosts cannot be served, or ""."""
        return "" if self._is_listening else "the sign-in service has no certificate for the link yet"

    async def _refresh(self) -> None:
        try:
            update = await asyncio.to_thread(read_changed, self._pair)
        except FAILURES as error:
            log.event("certificate_not_renewed", reason=type(error).__name__)
            raise
        if update:
            self._pair, self._pending = update
            if not self._is_listening:
                await self._listen(update[1])

    async def _listen(self, first: grpc.ServerCertificateConfiguration) -> None:
        """Start to listen. Handshakes use the latest key pair."""
        credentials = grpc.dynamic_ssl_server_credentials(
            first,
            self._take_new,  # type: ignore[arg-type]  # None means no change
            require_client_authentication=True,
        )
        self._server.add_secure_port(self._address, credentials)
        await self._server.start()
        self._is_listening = True

    def _take_new(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a TLS configuration that gRPC has not received yet, or None.

        gRPC calls this method for each handshake. When gRPC receives a configuration, it frees the previous
        configuration. If gRPC received a new configuration for each handshake, it would crash, because concurrent
        handshakes still use the freed configuration.
        """
        configuration, self._pending = self._pending, None
        return configuration


class _EnvoyOnly(external_auth_pb2_grpc.AuthorizationServicer):  # type: ignore[misc]  # no type hints
    """Refuses clients without the certificate of an edge host.

    The CA alone is not enough, because gateways have certificates of the same CA.
    """

    def __init__(self, answering: external_auth_pb2_grpc.AuthorizationServicer) -> None:
        self._answering = answering

    async def Check(self, request: CheckRequest, context: Any) -> CheckResponse:
        """Decide about a visitor's request. Refuse clients that are not edge hosts."""
        if CLIENT.encode() not in context.auth_context().get(_NAMES, ()):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "only hosts of the edge may connect: the client certificate is for another use",
            )
        return await self._answering.Check(request, context)


def read_changed(current: LinkPair | None) -> tuple[LinkPair, grpc.ServerCertificateConfiguration] | None:
    """Return the stored key pair and its TLS configuration. Return None if the pair is the same as `current`."""
    stored = link_pairs.read()
    if stored is None or stored.pair == current:
        return None
    chain, trusted = stored.pair.chain.encode(), stored.pair.authority.encode()
    return stored.pair, grpc.ssl_server_certificate_configuration([(stored.open_key(), chain)], trusted)
