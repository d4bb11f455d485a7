"""Worlds that are drawn, as accounts of one running edge, and real requests to them."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from chalicelib.model.edges.served import ServedEdge, ServedPart
from chalicelib.model.tunnels import gateways, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.link import server
from edge.link.proxy_protocol import Header
from tests import openssl
from tests.edge import served_records
from tests.edge.drawn_worlds import AUTHORITIES, DOMAIN, GATEWAY, records, telling_requests
from tests.edge.model_of_requests import CLOSED, REFUSED, Meets, Records, Request
from tests.live.edge.running import Edge

Drawn = tuple[Records, list[Request]]
_ID = re.compile(r"\b[a-z]+_[0-9]{27}\b")
_WIDTH = 9  # digits of an id that say of which world it is
_LONG = 10**10  # in seconds, after now
_VERSIONS = dict(zip(("1.0", "1.1", "1.2", "1.3"), list(ssl.TLSVersion)[2:6], strict=True))


def draw_worlds(count: int, *, request_count: int) -> list[Drawn]:
    """Return worlds that have nothing in common, each with so many requests."""
    worlds: list[Drawn] = []

    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(records())
    def draw(world: Records) -> None:
        number = len(worlds)
        worlds.append(of_world((world, telling_requests(world, request_count, Random(number))), number))

    draw()
    return worlds


def of_world(value: Any, number: int) -> Any:
    """Return a value in which all ids, accounts and hosts are those of one world."""
    if isinstance(value, str):
        text = _ID.sub(lambda id: f"{id[0][: -2 * _WIDTH]}{number:0{_WIDTH}}{id[0][-_WIDTH:]}", value)
        text = re.sub(r"\bacct_[ab]\b", rf"\g<0>{number}", text).replace(DOMAIN, f"w{number}.{DOMAIN}")
        return text.replace(f"three.w{number}.", f"three-w{number}.")  # the name of a tunnel has one label
    if isinstance(value, Mapping):
        return {of_world(key, number): of_world(element, number) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(of_world(element, number) for element in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: of_world(getattr(value, field.name), number) for field in fields(value)})
    return value


def arrange(edge: Edge, before: Records, world: Records, revision: int) -> None:
    """Have an edge serve a world in the place of another one of the same ids."""
    edges = [replace(edge, revision=revision) for edge in world.edges.values()]
    authorities = [
        replace(authority, pem=authority.pem and _authority(authority.id).certificate)
        for authority in world.authorities.values()
    ]
    values: list[ServedPart | ServedEdge] = [*world.backends.values(), *world.policies.values(), *authorities, *edges]
    for value in values:
        edge.store.keep(value)
    for reservation in world.reservations.values():
        edge.store.reserve(reservation)
    for tunnel in world.tunnels.values():
        served_records.put_tunnel(tunnel)
    _end(edge, before, world)


def _end(edge: Edge, before: Records, world: Records) -> None:
    """Have what is in one world and not in another go."""
    old: dict[str, ServedTunnel | ServedEdge | ServedPart] = {
        **before.edges,
        **before.backends,
        **before.policies,
        **before.authorities,
        **before.tunnels,
    }
    for id in old.keys() - {*world.edges, *world.backends, *world.policies, *world.authorities, *world.tunnels}:
        value = old[id]
        if isinstance(value, ServedTunnel):
            tunnels.close_tunnel(value.account, id)
        else:
            edge.store.forget(value)


def is_served(edge: Edge, world: Records, revision: int) -> bool:
    """Tell whether the edges of a world are those that the status is of, each settled."""
    statuses = [edge.store.status(world_edge) for world_edge in world.edges.values()]
    return all(status and status.revision == revision and status.state != "waiting" for status in statuses)


@contextlib.contextmanager
def gateway(edge: Edge) -> Iterator[None]:
    """Run a gateway whose every tunnel answers with its own id."""
    serving = server.serve(edge.store.authority, GATEWAY, "127.0.0.1", 0, _Tunnel)
    listening: asyncio.Server = edge.run(serving)
    port = listening.sockets[0].getsockname()[1]
    gateways.announce(Gateway(GATEWAY, "127.0.0.1", port), lease=_LONG)
    try:
        yield
    finally:
        edge.loop.call_soon_threadsafe(listening.close)


class _Tunnel(asyncio.Protocol):
    """A tunnel that answers every request with its id; requests have no body."""

    def __init__(self, id: str) -> None:
        self._id = id

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        return _Tunnel(self._id)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            self._read = self._read.partition(b"\r\n\r\n")[2]
            answer = f"HTTP/1.1 200 OK\r\ncontent-length: {len(self._id)}\r\n\r\n{self._id}"
            self._transport.write(answer.encode())  # type: ignore[attr-defined]


def is_http(request: Request, world: Records) -> bool:
    """Tell whether no edge passes the bytes of a request on: a tunnel here speaks neither TLS nor PROXY protocol."""
    names = {f"{request.host}:443", f"*.{request.host.partition('.')[2]}:443"}
    passing = [
        edge for edge in world.edges.values() if edge.terminate_at == "upstream" or edge.id.startswith("edgtls_")
    ]
    return not any(names & {*edge.hostports} for edge in passing)


def agrees(meeting: str, expected: Meets) -> bool:
    """Tell whether what a request met is what may be; a client of TLS 1.3 learns of a refusal after its handshake."""
    return meeting in expected or (meeting == REFUSED and CLOSED in expected)


def request_as_visitor(request: Request, port: int) -> str:
    """Return what a real request meets, in the words of the model."""
    head = f"GET {request.path} HTTP/1.1\r\nhost: {request.host}:{port}\r\nconnection: close\r\n"
    agents = "".join(f"user-agent: {agent}\r\n" for agent in request.agents)
    context = _context(request.client and AUTHORITIES[int(request.client[-1])], request.version)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 20) as raw,
            context.wrap_socket(raw, server_hostname=request.host) as secure,
        ):
            secure.sendall(f"{head}{agents}\r\n".encode())
            answer = HTTPResponse(secure)
            answer.begin()
            body = answer.read().decode()
    except (OSError, HTTPException):
        return REFUSED
    return body if _ID.fullmatch(body) else str(answer.status)


@cache
def _authority(id: str) -> openssl.Issued:
    """Return an authority, the same one for ids of several worlds that end alike."""
    return _issue(AUTHORITIES[int(id[-1])])


@cache
def _issue(id: str) -> openssl.Issued:
    return openssl.issue(f"/CN={id}", extensions=("basicConstraints=critical,CA:TRUE",))


@cache
def _context(client: str, version: str) -> ssl.SSLContext:
    """Return how a client connects: with a certificate of an authority if that is named, in one version of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")  # else no TLS before 1.2
    context.minimum_version = context.maximum_version = _VERSIONS[version]
    if client:
        client_pair = openssl.issue("/CN=client", issuer=_issue(client))
        with TemporaryDirectory() as folder:
            file = Path(folder, "client.pem")
            file.write_text(client_pair.certificate + client_pair.key)
            context.load_cert_chain(file)
    return context
