"""What one account brings touches no other: bad certificates, many names, slow readers; two gateways serve one edge."""

import asyncio
import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
from cryptography import x509

from chalicelib import ids
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.ads.catalog import Name
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.selector import OPERATOR_SECRET
from edge.ssh.gateway import SshGateway
from tests.conftest import free_port, least
from tests.edge import served_records
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy


def read_certificate_name(edge: Edge, name: str) -> str:
    """Return the common name in the certificate that a name is served with; empty where there is none.

    Without a name, the client sends no server name.
    """
    host = f"{name}.tunnels.localhost" if name else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 5) as raw:
            secure = context.wrap_socket(raw, server_hostname=host)
            der = secure.getpeercert(binary_form=True) or b""
            secure.close()
    except OSError:
        return ""
    common_names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(common_names[0].value)


def test_a_tunnel_is_served_with_the_certificate_that_its_account_uploaded(edge: Edge, origin: int) -> None:
    edge.upload("cert_own", "acct_A", "own.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"own:80:127.0.0.1:{origin}").wait_for("is online")

    until(lambda: read_certificate_name(edge, "own") == "cert_own")

    assert "x-forwarded-for: 127.0.0.1\n" in edge.curl("own", "--insecure")
    assert read_certificate_name(edge, "other") == "*.tunnels.localhost"


def test_envoy_takes_a_resource_of_each_kind(edge: Edge, origin: int) -> None:
    edge.upload("cert_taken", "acct_A", "taken.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"taken:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: read_certificate_name(edge, "taken") == "cert_taken")
    assert read_certificate_name(edge, "") == "*.tunnels.localhost"  # a client without a server name

    catalog = edge.control.discovery.catalog
    name = "taken.tunnels.localhost"
    names = {Name("listener", "https"), Name("listener", "http"), Name("scope", name), Name("secret", name)}
    names |= {Name("secret", LINK_SECRET), Name("secret", OPERATOR_SECRET)}
    names |= {Name("cluster", edge.gateway.id), Name("cluster", f"{edge.gateway.id}/http2")}
    until(lambda: all((answer := catalog.current_answer(each)) and not answer.error for each in names))


def test_a_certificate_of_another_account_is_not_used(edge: Edge, origin: int) -> None:
    edge.upload("cert_other", "acct_B", "mine.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"mine:80:127.0.0.1:{origin}").wait_for("is online")

    until(lambda: edge.status("mine") == "200")

    assert read_certificate_name(edge, "mine") == "*.tunnels.localhost"


def test_a_name_with_a_certificate_of_its_own_is_misdirected_on_other_connections(edge: Edge, origin: int) -> None:
    edge.upload("cert_apart", "acct_A", "apart.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"apart:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("apart", "--insecure") == "200")

    edge.ssh(edge.key("acct_B"), "-R", f"somebody:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("somebody") == "200")

    response = edge.curl("somebody", "-H", "Host: apart.tunnels.localhost", "-w", "%{http_code}")

    assert response == "421: this connection is for another host name: open a new connection.\n421"


def test_a_certificate_that_envoy_refuses_is_as_if_it_were_not_there(edge: Edge, origin: int) -> None:
    weak: list[str] = []

    def to_another() -> float:
        weak.append(f"weak{len(weak)}")
        edge.upload(f"cert_{weak[-1]}", "acct_B", f"{weak[-1]}.tunnels.localhost", "rsa-1024")
        edge.ssh(edge.key("acct_B"), "-R", f"{weak[-1]}:80:127.0.0.1:{origin}").wait_for("is online")
        return seconds_to(edge, "acct_A", f"beside-{weak[-1]}", origin)

    assert least(to_another, bound=2) < 2
    edge.upload("cert_good", "acct_A", "good.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"good:80:127.0.0.1:{origin}").wait_for("is online")

    until(lambda: read_certificate_name(edge, "good") == "cert_good")
    assert edge.status("good", "--insecure") == "200"
    assert [edge.status(name) for name in weak] == ["200"] * len(weak)
    assert [read_certificate_name(edge, name) for name in weak] == ["*.tunnels.localhost"] * len(weak)


def seconds_to(edge: Edge, account: str, name: str, origin: int) -> float:
    """Open a tunnel of an account; return the seconds until it answers."""
    key, start = edge.key(account), time.monotonic()
    edge.ssh(key, "-R", f"{name}:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status(name) == "200")
    return time.monotonic() - start


def test_certificates_that_serve_nothing_delay_nobody(edge: Edge, origin: int) -> None:
    ids = iter(range(100, 0, -1))
    edge.ssh(edge.key("acct_B"), "-R", "idle:80:localhost:1").wait_for("is online")

    def to_another() -> float:
        for number in itertools.islice(ids, 10):
            edge.upload(f"cert_longest{number:03}", "acct_B", "idle.tunnels.localhost")  # of the same end: by id
        return seconds_to(edge, "acct_A", f"swift{next(ids)}", origin)

    assert least(to_another, bound=2) < 2


def test_a_thousand_names_of_one_account_delay_no_other(edge: Edge, origin: int) -> None:
    thousands = iter(("a", "b", "c"))

    def to_another() -> float:
        thousand = next(thousands)
        names = (f"many{number}{thousand}.tunnels.localhost" for number in range(1000))
        new_tunnels = [ServedTunnel("acct_A", ids.new("tn"), edge.gateway.id, name) for name in names]
        served_records.put_tunnels(*new_tunnels)
        time.sleep(0.5)
        seconds = seconds_to(edge, "acct_B", f"quick-{thousand}", origin)
        served_records.remove_tunnels(*new_tunnels)
        return seconds

    assert least(to_another, bound=1) < 1


def test_two_gateways_stand_behind_one_edge(edge: Edge, origin: int, tmp_path: Path) -> None:
    with _second(edge, tmp_path) as second:
        edge.ssh(edge.key("acct_A"), "-R", f"first:80:127.0.0.1:{origin}").wait_for("is online")
        edge.ssh(edge.key("acct_A"), "-p", str(second), "-R", f"second:80:127.0.0.1:{origin}").wait_for("is online")

        until(lambda: edge.status("first") == "200")
        until(lambda: edge.status("second") == "200")


def test_a_slow_reader_stalls_nobody_else_of_the_same_tunnel(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"slow:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("slow") == "200")
    slow = edge.connect("slow", "http/1.1")
    slow.sendall(b"GET /bytes/200000000 HTTP/1.1\r\nhost: slow.tunnels.localhost\r\n\r\n")
    slow.recv(1000)
    time.sleep(0.5)

    def median() -> float:
        return sorted(float(edge.curl("slow", "-o", "/dev/null", "-w", "%{time_total}")) for _ in range(10))[5]

    assert least(median, bound=0.2) < 0.2
    slow.close()


def upload_until_it_stalls(edge: Edge, name: str) -> int:
    """Return how many bytes of a visitor's upload are taken, of a hundred million."""
    size, block, count = 100_000_000, bytes(1 << 16), 0
    head = f"POST / HTTP/1.1\r\nhost: {name}.tunnels.localhost"
    with edge.connect(name, "http/1.1") as visitor, contextlib.suppress(TimeoutError):
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        visitor.settimeout(0.5)
        visitor.sendall(f"{head}\r\ncontent-length: {size}\r\n\r\n".encode())
        while count < size:
            count += visitor.send(block)
    return count


def test_what_an_upstream_does_not_read_takes_little_of_the_memory_for_sockets_that_all_share(
    edge: Edge, origin: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        forwards = ("-R", f"unread:80:127.0.0.1:{deaf.getsockname()[1]}", "-R", f"read:80:127.0.0.1:{origin}")
        edge.ssh(edge.key("acct_A"), *forwards)
        until(lambda: edge.status("read") == "200")
        size = upload_until_it_stalls(edge, "unread")

    assert size < 12_500_000


def test_whoever_reaches_the_hop_without_its_certificate_gets_nothing(edge: Edge) -> None:
    port = edge.store.up[edge.gateway.id].port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    edge.ssh(edge.key("acct_A"), "-R", "hop:80:localhost:1").wait_for("is online")
    (tunnel,) = edge.open_tunnels()

    response = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as raw:
        secure = context.wrap_socket(raw, server_hostname=tunnel)
        secure.sendall(b"GET / HTTP/1.1\r\nhost: hop\r\n\r\n")
        response = secure.recv(100)

    assert response == b""


@contextlib.contextmanager
def _second(edge: Edge, folder: Path) -> Iterator[int]:
    """Run another gateway on the same store; its port."""
    settings = replace(edge.settings, ssh_port=free_port(), directory=folder)
    work = asyncio.run_coroutine_threadsafe(SshGateway(settings, edge.store, edge.store.authority).serve(), edge.loop)
    until(lambda: len(edge.store.up) == 2)
    try:
        yield settings.ssh_port
    finally:
        work.cancel()
        until(lambda: len(edge.store.up) == 1)


def test_a_client_that_does_not_read_is_not_written_to_without_bound(edge: Edge) -> None:
    key, name = edge.key("acct_A"), "deaf"

    async def deaf() -> asyncssh.SSHClientConnection:
        port = edge.settings.ssh_port
        client = await asyncssh.connect("127.0.0.1", port, client_keys=[str(key.file)], known_hosts=None, config=None)
        await client.create_server(lambda *_: asyncssh.SSHTCPSession(), name, 80, window=1 << 30)
        return client

    client = edge.run(deaf())
    until(lambda: edge.curl(name, "-o", "/dev/null", "-w", "%{http_code}", timeout=1) != "404")
    edge.loop.call_soon_threadsafe(client._transport.pause_reading)

    size = upload_until_it_stalls(edge, name)

    assert size < 20_000_000
    assert edge.curl("nobody", "-o", "/dev/null", "-w", "%{http_code}") == "404"
    edge.loop.call_soon_threadsafe(client.abort)
