"""The worst user agent filters that the API accepts, the worst requests for them, and the CPU that these cost Envoy."""

import random
import resource
import socket
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from tests.edge.edge_modules import enabled, extended
from tests.edge.edge_table import EdgeTable
from tests.live.edge.running import Edge, until

ACCOUNT = "acct_filters"
KINDS = ("exact_path", "path_prefix")
BAR = 3  # milliseconds of CPU above a request without a filter
_COUNT = 60  # requests of a round
_PARTS = b"user auth email group role identity subject jwt admin client ip real host url remote - - -".split()


def _words() -> list[str]:
    chance = random.Random(1)
    return sorted({"".join(chance.choice("ab") for _ in range(38)) for _ in range(100)})


WORST = {
    "one repetition": UserAgentModule(deny=["[ab]*a[ab]{253}X"]),
    "one in each list": UserAgentModule(allow=["a[ab]{104}X"], deny=["b[ab]{104}X"]),
    "many repetitions": UserAgentModule(deny=[f"{'ab' * number}a[ab]{{45}}X" for number in range(4)]),
    "groups with names": UserAgentModule(deny=[f"(?P<a>a[ab]{{20}}{sign})" for sign in "XYZU"]),
    "a byte": UserAgentModule(deny=[r"a\C{240}X"]),
    "words": UserAgentModule(allow=_words(), deny=[f"(?i){word}" for word in _words()]),
}


def serve(edge: Edge, name: str, rules: UserAgentModule | None) -> ServedEdge:
    """Serve an edge with a filter, and wait until it answers."""
    served_edge = keep(edge.store, edge.settings.tunnel_domain, name, rules)
    until(lambda: edge.status(name, path="/open") == "200")
    return served_edge


def keep(store: EdgeTable, domain: str, name: str, rules: UserAgentModule | None) -> ServedEdge:
    """Store an edge whose route for all paths has a filter, and another one has none."""
    answer = ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="open\n"))
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "none"}))
    for backend in (answer, group):
        store.keep(backend)
    modules = enabled(backend=BackendModule(backend_id=answer.id), user_agent_filter=rules)
    # Other routes of the edge have the same filter: a request must not pay for them.
    other_routes = (
        ServedRoute(ids.new("edghtsrt"), kind, f"/{number}", modules) for kind in KINDS for number in range(5)
    )
    is_open, to_group = (
        extended(modules, user_agent_filter=None),
        extended(modules, backend=BackendModule(backend_id=group.id)),
    )
    paths = {"/": modules, "/open": is_open, "/group": to_group}
    routes = (
        *other_routes,
        *(
            ServedRoute(ids.new("edghtsrt"), "path_prefix", path, modules_of_path)
            for path, modules_of_path in paths.items()
        ),
    )
    served_edge = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (f"{name}.{domain}:443",), routes=routes)
    store.keep(served_edge)
    return served_edge


def agents(rules: UserAgentModule) -> Callable[[], bytes]:
    """Return a function that returns a new User-Agent of 512 bytes, which costs a filter most."""
    if rules is WORST["words"]:
        return lambda: b"".join(random.choice(rules.allow)[: random.randint(1, 38)].encode() for _ in range(50))[:512]
    return lambda: bytes(random.choices(b"ab", k=512))


def headers(*, are_names: bool) -> bytes:
    """Return a User-Agent and 60 KB of other headers, which have long names or long values."""
    texts = random.sample(_texts(), 95)
    return b"\r\n".join([b"me", *(b"%b: a" % text if are_names else b"a: %b" % text for text in texts)])


@cache
def _texts() -> list[bytes]:
    return [b"x-" + b"-".join(random.choices(_PARTS, k=100))[:590] for _ in range(500)]


def cpu(edge: Edge, name: str, begin: bytes, agents: Callable[[], bytes]) -> float:
    """Return the milliseconds of Envoy's CPU for a request, the least of five rounds."""
    with edge.connect(name, "http/1.1") as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each long request waits 40 ms
        return min(_round(connection, edge, name, begin, agents) for _ in range(5))


def _round(connection: ssl.SSLSocket, edge: Edge, name: str, begin: bytes, agents: Callable[[], bytes]) -> float:
    host, envoy = f"{name}.{edge.settings.tunnel_domain}".encode(), envoy_in(edge.settings.directory)
    before = _read_used(envoy)
    for _ in range(_COUNT):
        connection.sendall(b"%bhost: %b\r\nuser-agent: %b\r\n\r\n" % (begin, host, agents()))
        assert connection.recv(10_000).startswith(b"HTTP/1.1 ")
    return (_read_used(envoy) - before) / _COUNT


def _read_used(process: Path) -> float:
    """Return the milliseconds of CPU that a process has used."""
    return sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat")) / 1e6


def envoy_in(directory: Path) -> Path:
    """Return the folder in /proc of the Envoy that runs in a directory."""
    folders = (path.parent for path in Path("/proc").glob("[0-9]*/cwd") if path.resolve() == directory)
    return next(folder for folder in folders if (folder / "comm").read_text().startswith("envoy"))


def resident(edge: Edge) -> int:
    """Return the bytes of memory that Envoy has."""
    pages = (envoy_in(edge.settings.directory) / "statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()
