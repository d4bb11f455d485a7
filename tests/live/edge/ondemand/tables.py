"""An Envoy, a discovery server and a table of names that are loaded when a visitor requests them."""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar

from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control import pressure
from edge.envoy import listeners
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.delta import Demand
from edge.envoy.ads.discovery import Discovery
from edge.envoy.clusters import LINK_SECRET, Members
from edge.envoy.filters import blocking
from edge.envoy.names import https_listener
from edge.envoy.resources import Key, Resource
from edge.envoy.selector import OPERATOR_SECRET
from edge.envoy.start.bootstrap import build_bootstrap
from edge.envoy.start.overload import PRESSURE
from edge.link import authority, server
from edge.link.authority import Authority, KeyPair
from edge.plan.names import NamePlan
from edge.process.envoy_process.envoy_parent import ENVOY_ARGUMENTS
from edge.process.settings import ADMIN_SOCKET, Limits, Settings
from edge.serving.name_resources import build_certificate_only, build_name_resources
from edge.serving.order import NameResources, Sender
from tests.conftest import free_port
from tests.edge.plan import worlds
from tests.live.edge.running import ENVOY, listens, until
from tests.needs import need

UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
)
A, GATEWAY = "acct_a", "gw-1"
T = TypeVar("T")
UPGRADE = (  # header lines of a request for a WebSocket
    "connection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
)


@dataclass
class Records:
    """The records that answer names."""

    gateways: dict[str, Gateway] = field(default_factory=dict)
    backends: dict[str, ServedBackend] = field(default_factory=dict)
    tunnels: dict[str, list[ServedTunnel]] = field(default_factory=dict)  # by group

    def members(self, group: ServedBackend) -> Members:
        return [(tunnel, self.gateways[tunnel.gateway]) for tunnel in self.tunnels.get(group.id, [])]


class Table:
    """Loads the names of a table. Counts the requests of Envoy."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.loop = settings, asyncio.new_event_loop()
        self.authority, self.link = authority.make("Table"), authority.make("link")
        self.discovery = Discovery(b"key", self._on_demand)
        self.sender = Sender(self.discovery)
        self.records, self.names, self.unknown = Records(), dict[str, NameResources](), set[str]()
        self.fixed = _fixed_resources(self)
        self.requests, self.errors, self.envoy_names = Counter[str](), dict[str, str](), set[Name]()
        self.stopping: contextlib.AbstractAsyncContextManager[None] | None = None
        self._tasks = set[asyncio.Task[None]]()

    def serve(self, plan: NamePlan, pair: KeyPair | None = None) -> NameResources:
        """Add a name to the table."""
        pair = pair or self.authority.issue(plan.name)
        self.names[plan.name] = build_name_resources(plan, pair, self.records, self.link.pem, self.settings)
        return self.names[plan.name]

    def answer(self, name: str, body: str, **more: Any) -> NameResources:
        """Add a name that is answered by a fixed text."""
        return self.serve(self.plan(name, body, **more))

    def plan(self, name: str, body: str, *hosts: str, **more: Any) -> NamePlan:
        """Return the plan of an edge that answers with a text. `more` are arguments of `worlds.edge`."""
        id = f"bkdhr_{name}"
        self.records.backends[id] = replace(worlds.response(200, body), id=id)
        route = worlds.route("/", id)
        planned_hosts = tuple(PlannedHost(host, "live", certificate="cert_1") for host in (hosts or (name,)))
        target = RouteTarget(route, ((id, 1),), online=((id, 1),))
        edge = worlds.edge(route, id=f"edghts_{name}", hosts=hosts or (name,), **more)
        trusted_pems = (self.authority.pem,) if edge.modules.values.get("mutual_tls") else ()
        return NamePlan(name, A, "cert_1", edge=Plan(edge, planned_hosts, trusted=trusted_pems, targets=(target,)))

    def tunnel(self, name: str, *, proxy_protocol: bool = False) -> NamePlan:
        """Return the plan of a tunnel under the operator's certificate."""
        tunnel = ServedTunnel(A, f"tn_{name.partition('.')[0]}", GATEWAY, name, proxy_protocol=proxy_protocol)
        return NamePlan(name, A, OPERATOR, site=Site(name, tunnel, OPERATOR))

    def run(self, work: Awaitable[T]) -> T:
        """Return the result of a coroutine that runs in the loop of the table."""

        async def wait() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(30)

    def send(self, resources: NameResources) -> str:
        """Send a name, and return Envoy's error or ""."""
        rejection = self.run(self.sender.send(resources))
        return rejection.error if rejection else ""

    def publish(self, *resources: Resource) -> None:
        async def apply() -> None:
            names = self.discovery.apply({resource.key: resource for resource in resources})
            await self.discovery.wait_until_settled(names, timeout=5)

        self.run(apply())

    def remove(self, *keys: Key) -> None:
        async def apply() -> None:
            names = self.discovery.apply(dict.fromkeys(keys))
            await self.discovery.wait_until_settled(names, timeout=5)

        self.run(apply())

    def connect(self, name: str, *protocols: str, source: str = "127.0.0.1", **more: Any) -> ssl.SSLSocket:
        """Return a TLS connection with a server name."""
        raw = socket.create_connection(("127.0.0.1", self.settings.edge_port), 10, (source, 0))
        return self.wrap(raw, name, *protocols, **more)

    def wrap(self, raw: socket.socket, name: str, *protocols: str, **more: Any) -> ssl.SSLSocket:
        context = client_context(self.authority, **more)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context.wrap_socket(raw, server_hostname=name.encode() or None)

    def curl(self, name: str, protocol: str, source: str) -> str:
        """Return the status that curl gets from an address of its own."""
        need("curl")
        port = self.settings.edge_port
        options = ["--http2" if protocol == "h2" else "--http1.1", "--interface", source, "--insecure"]
        command = ["curl", "-sS", "--resolve", f"{name}:{port}:127.0.0.1", "-o", "/dev/null", "-w", "%{http_code}"]
        result = subprocess.run([*command, *options, f"https://{name}:{port}/"], capture_output=True, text=True)
        return result.stdout

    def visit(self, name: str, host: str = "", path: str = "/", **more: Any) -> tuple[int, str]:
        """Return the status and the body for a request on a connection of its own."""
        with self.connect(name, **more) as connection:
            return ask(connection, host or name, path)

    def access_log(self) -> list[dict[str, Any]]:
        """Return the lines of the access log that are complete."""
        log = Path(self.settings.access_log_file)
        complete = log.read_text().rpartition("\n")[0] if log.exists() else ""
        return [json.loads(line) for line in complete.splitlines()]

    def stats(self, name: str) -> int:
        """Return a counter of Envoy."""
        stats = read_admin(self.settings, f"/stats?format=json&filter=^{name}$")["stats"]
        return int(stats[0]["value"])

    def stop(self) -> None:
        """Stop the discovery, as if control had been killed."""
        if self.stopping:
            stopping, self.stopping = self.stopping, None
            self.run(stopping.__aexit__(None, None, None))

    def clusters(self) -> set[str]:
        """Return the names of Envoy's clusters."""
        return {cluster["name"] for cluster in read_admin(self.settings, "/clusters?format=json")["cluster_statuses"]}

    @property
    def is_idle(self) -> bool:
        """Return whether Envoy has the answers to all its requests."""
        return not self._tasks

    def _on_demand(self, demand: Demand) -> None:
        self.envoy_names |= demand.resources
        for name in demand.requested:
            self.requests[name] += 1
            task = self.loop.create_task(self._load(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _load(self, name: str) -> None:
        if name.lower() in self.names:
            rejection = await self.sender.send(self.names[name.lower()])
            self.errors[name] = rejection.error if rejection else ""
            if rejection:
                await self.sender.withdraw([name.lower()])
        if name.lower() in self.unknown or (name != name.lower() and name.lower() in self.names):
            await self.sender.send(build_certificate_only(name, self.authority.issue(name.lower())))
        elif name not in self.names:
            await self.sender.refuse([name])


def read_admin(settings: Settings, path: str) -> Any:
    """Return JSON of Envoy's admin interface."""
    connection = HTTPConnection("admin")
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.connect(str(settings.directory / ADMIN_SOCKET))
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


def read_allocated(settings: Settings) -> int:
    """Return the bytes that Envoy has allocated."""
    return int(read_admin(settings, "/memory")["allocated"])


def client_context(authority_of_server: Authority, pair: KeyPair | None = None, version: str = "") -> ssl.SSLContext:
    """Return a TLS context of a client. `version` is the only one that it offers."""
    context = ssl.create_default_context(cadata=authority_of_server.pem)
    context.check_hostname = False
    if pair:
        authority.load_into(context, pair)
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[
            "TLSv" + version.removesuffix(".0").replace(".", "_")
        ]
        context.set_ciphers("DEFAULT@SECLEVEL=0")
    return context


def ask(connection: ssl.SSLSocket, host: str, path: str = "/", *headers: str) -> tuple[int, str]:
    """Send a request on a connection. Return the status and the body."""
    lines = [f"GET {path} HTTP/1.1", f"host: {host}", *headers]
    connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
    answer = HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read().decode()


def settings_in(folder: Path, proxies: tuple[str, ...] = (), **limits: int) -> Settings:
    return Settings(
        directory=folder,
        edge_port=free_port(),
        http_port=free_port(),
        proxy_protocol_from=proxies,
        limits=replace(Limits(), **limits),
    )


@contextlib.contextmanager
def running(folder: Path, proxies: tuple[str, ...] = (), **limits: int) -> Iterator[Table]:
    """Run an Envoy with a table of names."""
    with serving(settings_in(folder, proxies, **limits)) as table, envoy(table):
        yield table


@contextlib.contextmanager
def envoy(table: Table, folder: Path | None = None) -> Iterator[None]:
    """Run an Envoy until the end of the context, in the folder of the table or in another one."""
    folder = folder or table.settings.directory
    for name in {"bootstrap.json", "discovery.sock", PRESSURE}:
        if folder != table.settings.directory:
            (folder / name).symlink_to(table.settings.directory / name)
    command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1", "--file-flush-interval-msec", "100"]
    with (
        (folder / "envoy.log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env={}, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: (folder / "admin.sock").exists() and listens(table.settings.edge_port), within=20)
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def serving(settings: Settings, *, like: Table | None = None, is_complete: bool = True) -> Iterator[Table]:
    """Run the discovery of a table, with the certificates of another one. An incomplete one keeps what Envoy has."""
    table = Table(settings)
    table.discovery.catalog.is_complete = is_complete
    if like:
        table.authority, table.link, table.fixed = like.authority, like.link, like.fixed
    (settings.directory / "bootstrap.json").write_text(json.dumps(build_bootstrap(settings)))
    pressure.reset(settings)
    table.discovery.apply({resource.key: resource for resource in table.fixed})
    thread = threading.Thread(target=table.loop.run_forever, daemon=True)
    thread.start()
    table.stopping = table.discovery.run(settings.discovery_socket)
    table.run(table.stopping.__aenter__())
    try:
        yield table
    finally:
        table.stop()
        table.loop.call_soon_threadsafe(table.loop.stop)
        thread.join(10)


def _fixed_resources(table: Table) -> tuple[Resource, ...]:
    """Return the resources that do not depend on names."""
    pairs = {OPERATOR_SECRET: table.authority.issue("operator.example"), LINK_SECRET: table.link.issue(server.CLIENT)}
    secrets = (listeners.build_secret(name, pair.chain, pair.key) for name, pair in pairs.items())
    return (*https_listener.build_public(table.settings), *blocking.build_rules([], []), *secrets)
