"""Visitors of names on a whole edge host: cold, with rejected certificates, before a tunnel is online, and blocked."""

import contextlib
import random
import socket
import ssl
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chalicelib import ids
from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.served import Modules
from chalicelib.model.names.reservations import ServedReservation
from edge.link.authority import KeyPair
from tests import openssl
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.names import ACCOUNT, Name, serve
from tests.live.edge.ondemand.tables import UPGRADE, ask
from tests.live.edge.running import Edge, build_certificate, running, until

_LARGE = 30_000_000  # bytes that do not fit into the buffers on their way

pytestmark = needs_envoy


def values(edge: Edge) -> Counter[str]:
    """Return the metrics of loaded names, by name and label."""
    with urllib.request.urlopen(f"http://127.0.0.1:{edge.settings.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    name_lines = (line.rpartition(" ") for line in lines if line.startswith("edge_name"))
    return Counter({name: int(float(value)) for name, _, value in name_lines})


def loads(edge: Edge) -> int:
    """Return how many names were loaded or looked for."""
    return sum(value for name, value in values(edge).items() if name.startswith("edge_name_loads_total"))


def connect(edge: Edge, host: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10)
    return context.wrap_socket(raw, server_hostname=host)


def test_a_hundred_visitors_at_once_of_a_cold_name_cause_one_load(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True) as edge, ThreadPoolExecutor(50) as threads:
        edge.ssh(edge.key(ACCOUNT), "-R", f"crowd:80:127.0.0.1:{origin}").wait_for("is online")
        edge.settle()
        assert Counter(threads.map(lambda _: edge.status("crowd"), range(100))) == {"200": 100}
        assert loads(edge) == 1


def test_random_hosts_on_an_open_connection_are_misdirected_and_load_nothing(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        domain, draw = edge.settings.tunnel_domain, random.Random(42)
        edge.ssh(edge.key(ACCOUNT), "-R", f"kept:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("kept") == "200")
        before = loads(edge)
        with edge.connect("kept", "http/1.1") as connection:
            hosts = [f"{draw.getrandbits(64):x}.{domain}" for _ in range(1000)]
            assert Counter(ask(connection, host)[0] for host in hosts) == {421: 1000}
            assert ask(connection, f"kept.{domain}")[0] == 200
        assert loads(edge) == before


def test_the_first_visitor_waits_for_a_certificate_that_envoy_accepts(edge: Edge) -> None:
    name, subject = serve(edge, "second"), (f"subjectAltName=DNS:second.{edge.settings.tunnel_domain}",)
    edge.upload(ids.new("cert"), ACCOUNT, name.host)
    for days in (400, 500):  # later ones come first
        weak = openssl.issue("/CN=weak", "rsa-1024", extensions=subject)
        preferred = build_certificate(ids.new("cert"), ACCOUNT, name.host, until=days)
        edge.store.upload(preferred, KeyPair(weak.certificate, weak.key))
    edge.settle()
    assert edge.status("second", "--insecure") == "200"


def test_a_name_whose_only_certificate_is_rejected_is_refused_within_a_second(edge: Edge) -> None:
    host, weak = "shop.weak.example", ids.new("cert")
    edge.store.reserve(ServedReservation(ACCOUNT, ids.new("rd"), host, is_proved=True))
    weak_pair = openssl.issue("/CN=weak", "rsa-1024", extensions=(f"subjectAltName=DNS:{host}",))
    edge.store.upload(build_certificate(weak, ACCOUNT, host), KeyPair(weak_pair.certificate, weak_pair.key))
    serve(edge, host)
    edge.settle()
    start = time.monotonic()
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        connect(edge, host)
    assert time.monotonic() - start < 1


def test_a_connection_that_got_the_page_of_unknown_names_is_served_once_the_name_is(edge: Edge, origin: int) -> None:
    host = f"later.{edge.settings.tunnel_domain}"
    with edge.connect("later", "http/1.1") as connection:
        assert [ask(connection, host)[0] for host in (host, f"{host}:443", f"x{host}")] == [404, 404, 421]
        edge.ssh(edge.key("acct_A"), "-R", f"later:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: ask(connection, host)[0] == 200, within=3)


@pytest.mark.parametrize("form", ["mutual", "version"])
def test_a_blocked_network_is_refused_at_special_names_within_five_seconds(
    name: Name, mutual: Modules, form: str
) -> None:
    name.change(mutual if form == "mutual" else enabled(tls_termination=TlsTerminationModule(min_version="1.3")))
    until(lambda: not name.visit(is_stranger=form == "mutual", version="" if form == "mutual" else "TLSv1_2"))
    until(lambda: name.visit() == "200")
    with name.connect(source="127.0.0.2") as bad, name.connect(source="127.0.0.3") as good:
        assert (ask(bad, name.host)[0], ask(good, name.host)[0]) == (200, 200)
        name.edge.store.block("127.0.0.2/32")
        try:
            until(lambda: ask(bad, name.host)[0] == 403, within=5)
            assert (name.visit(source="127.0.0.2"), ask(good, name.host)[0]) == ("403", 200)
        finally:
            name.edge.store.block()
        until(lambda: name.visit(source="127.0.0.2") == "200", within=5)


def test_unloading_ends_neither_a_download_nor_a_websocket(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, name_period=1, max_loaded_mib=2) as edge:
        host = f"busy.{edge.settings.tunnel_domain}"
        edge.ssh(edge.key("acct_A"), "-R", f"busy:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("busy") == "200")
        with contextlib.ExitStack() as stack:
            chat, download, idle = (stack.enter_context(edge.connect("busy", "http/1.1")) for _ in range(3))
            chat.sendall(f"GET /echo HTTP/1.1\r\nhost: {host}\r\n{UPGRADE}\r\n\r\n".encode())
            assert b" 101 " in chat.recv(1000)
            download.sendall(f"GET /bytes/{_LARGE} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            head = download.recv(4096).partition(b"\r\n\r\n")
            assert head[0].startswith(b"HTTP/1.1 200 ")
            other_names = [serve(edge, f"other{number}", f"acct_{number}") for number in range(17)]

            def is_unloaded() -> bool:
                assert {other_name.visit() for other_name in other_names} <= {"200", ""}
                return ask(idle, host)[0] == 404

            until(is_unloaded, within=30)
            chat.sendall(b"\x81\x85\0\0\0\0hello")
            assert chat.recv(1000) == b"\x81\x05hello"
            remaining = _LARGE - len(head[2])
            while remaining and (data := download.recv(1 << 16)):
                remaining -= len(data)
            assert remaining == 0
