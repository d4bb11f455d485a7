"""Addresses of tunnels as the world sees them: curl, a WebSocket client and openssl through Envoy and the gateway."""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from websocket import create_connection

from tests.conftest import least
from tests.live.edge.believed import NAMES, NEEDED
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy


def test_a_tunnel_answers_over_both_versions_of_http_within_a_second(edge: Edge, origin: int) -> None:
    names = iter(("fast", "faster", "fastest"))

    def measure_opening() -> float:
        key, name, start = edge.key("acct_A"), next(names), time.monotonic()
        edge.ssh(key, "-R", f"{name}:80:127.0.0.1:{origin}")
        until(lambda: edge.status(name) == "200")
        return time.monotonic() - start

    assert least(measure_opening, bound=1) < 1
    assert edge.curl("fast", "--http1.1", "-o", "/dev/null", "-w", "%{http_code} %{http_version}") == "200 1.1"
    assert edge.curl("fast", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}") == "200 2"


@pytest.fixture(scope="module")
def tunnel_name(edge: Edge, origin: int) -> Iterator[str]:
    """Open a tunnel to a server that says what it reads; yield its name."""
    client = edge.ssh(edge.key("acct_A"), "-R", f"who:80:127.0.0.1:{origin}")
    edge.clients.remove(client)  # it stays from test to test
    until(lambda: edge.status("who") == "200")
    yield "who"
    client.kill()


def headers(names: Iterable[str]) -> list[str]:
    """Return the arguments by which curl sends them, with one value for all."""
    return [part for name in names for part in ("-H", f"{name}: 6.6.6.6")]


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
@pytest.mark.parametrize(
    "spelled",
    [
        str,
        str.upper,
        lambda name: name.replace("-", "_"),
        lambda name: name.replace("-", "_", 1).swapcase(),
        lambda name: name.replace("-", "."),
    ],
    ids=["as they are", "in capitals", "with _", "with some _", "with dots"],
)
def test_the_upstream_reads_who_asked_and_for_what_whatever_the_client_claims(
    edge: Edge, tunnel_name: str, spelled: Callable[[str], str], protocol: str
) -> None:
    host = f"{tunnel_name}.tunnels.localhost:{edge.settings.edge_port}"
    header_lines = ["user-agent: me", "accept: a/b"]
    expected = [
        "GET /a?b=c",
        *header_lines,
        f"host: {host}",
        "x-forwarded-for: 127.0.0.1",
        f"x-forwarded-host: {host}",
        f"x-forwarded-port: {edge.settings.edge_port}",
        "x-forwarded-proto: https",
    ]
    arguments = [protocol, *(part for header in header_lines for part in ("-H", header))]
    for first in range(0, len(NAMES), 80):  # Envoy takes a hundred at once
        claimed_headers = headers(map(spelled, NAMES[first : first + 80]))
        assert sorted(edge.curl(tunnel_name, *arguments, *claimed_headers, path="/a?b=c").splitlines()) == sorted(
            expected
        )


def test_a_client_cannot_have_a_proxy_behind_the_tunnel_remove_what_the_edge_says(edge: Edge, tunnel_name: str) -> None:
    header_lines = "Upgrade: websocket\r\nConnection: upgrade, x-forwarded-for, x-forwarded-proto"
    with edge.connect(tunnel_name, "http/1.1") as connection:
        connection.sendall(
            f"GET /upgraded HTTP/1.1\r\nHost: {tunnel_name}.tunnels.localhost\r\n{header_lines}\r\n\r\n".encode()
        )
        read = b"".join(iter(lambda: connection.recv(4096), b"")).decode().splitlines()

    assert {"GET /upgraded", "x-forwarded-for: 127.0.0.1", "x-forwarded-proto: https"} <= {*read}
    assert [line for line in read if line.startswith("connection: ")] == [
        "connection: upgrade"
    ] * 2  # answer and request
    assert edge.status(tunnel_name, "--http1.1", "-H", "Connection: close, x-forwarded-for") == "400"


def test_the_upstream_reads_all_else(edge: Edge, tunnel_name: str) -> None:
    read = edge.curl(tunnel_name, *headers(NEEDED)).splitlines()

    assert [name for name in NEEDED if f"{name}: 6.6.6.6" not in read] == []


def test_a_name_without_a_tunnel_says_so(edge: Edge) -> None:
    assert edge.curl("nobody", "-w", "%{http_code}") == "404: there is no tunnel with this name.\n404"


def test_a_tunnel_whose_upstream_does_not_answer_says_so(edge: Edge) -> None:
    edge.ssh(edge.key("acct_A"), "-R", "silent:80:127.0.0.1:1").wait_for("is online")

    until(lambda: edge.status("silent") == "502")

    response = edge.curl("silent")
    assert response == "502: the tunnel is open, but the server behind it does not answer.\n"


@pytest.mark.needs("curl")
@pytest.mark.parametrize("host", ["demo.tunnels.localhost", "demo.tunnels.localhost."])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_http_is_redirected_to_the_https_address_with_its_method(edge: Edge, method: str, host: str) -> None:
    url = f"http://127.0.0.1:{edge.settings.http_port}/a?b"
    command = ["curl", "-sS", "-w", "%{http_code} %{redirect_url}", "-X", method, "-H", f"Host: {host}", url]

    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert output == f"308 {edge.url('demo', '/a?b')}"


@pytest.mark.parametrize("protocol", ["--http1.0", "--http1.1", "--http2"])
def test_a_host_may_end_with_a_dot(edge: Edge, origin: int, protocol: str) -> None:
    name = f"dot{protocol[-1]}"
    edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status(name) == "200")

    for port in ("", f":{edge.settings.edge_port}"):
        read = edge.curl(name, protocol, "-H", f"Host: {name}.tunnels.localhost.{port}")
        assert f"\nhost: {name}.tunnels.localhost{port}\n" in read
        assert f"\nx-forwarded-host: {name}.tunnels.localhost{port}\n" in read


def test_a_request_that_names_no_host_is_refused(edge: Edge) -> None:
    assert edge.curl("any", "--http1.0", "-H", "Host:", "-w", "%{http_code}") == "400"


def test_events_come_as_they_are_sent(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"events:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("events") == "200")

    with edge.connect("events") as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nhost: events.tunnels.localhost\r\n\r\n")
        for number in range(3):  # the server sends each when it is told that the one before has come
            read = b""
            while b"data: %d" % number not in read:
                read += connection.recv(4096)
            assert edge.status("events", path="/come") == "200"


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
def test_uploads_and_downloads_of_any_size_pass(edge: Edge, origin: int, protocol: str) -> None:
    name = f"large{protocol[-1]}"
    edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status(name) == "200")
    size = 16 * 1024 * 1024
    large = edge.folder / "large"
    large.write_bytes(b"y" * size)

    assert edge.curl(name, protocol, "-H", "Expect:", "--data-binary", f"@{large}", timeout=60) == f"{size} bytes\n"
    assert edge.curl(
        name, protocol, "-o", "/dev/null", "-w", "%{size_download}", path=f"/bytes/{size}", timeout=60
    ) == str(size)


def test_a_websocket_is_upgraded_and_speaks_both_ways(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"ws:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("ws") == "200")

    with edge.connect("ws", "http/1.1") as secure:
        client = create_connection(f"ws://ws.tunnels.localhost:{edge.settings.edge_port}/echo", socket=secure)
        client.send("hello")
        assert client.recv() == "hello"
        client.close()


def test_a_client_that_ends_takes_its_address_with_it_within_a_second(edge: Edge, origin: int) -> None:
    def measure_removal() -> float:
        client = edge.ssh(edge.key("acct_A"), "-R", f"brief:80:127.0.0.1:{origin}")
        until(lambda: edge.status("brief") == "200")
        start = time.monotonic()
        client.kill()
        until(lambda: edge.status("brief") == "404")
        return time.monotonic() - start

    assert least(measure_removal, bound=1) < 1


def test_every_request_is_a_line_of_the_access_log_without_its_query(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_L"), "-R", f"logged:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("logged") == "200")

    edge.curl("logged", "-H", "Cookie: secret=1", path="/path?secret=2")

    until(lambda: any(entry["path"] == "/path" for entry in edge.access_log()))
    line = next(entry for entry in edge.access_log() if entry["path"] == "/path")
    assert "secret" not in (edge.settings.directory / "access.log").read_text()
    assert {name: line[name] for name in ("account", "method", "status", "client", "path")} == {
        "account": "acct_L",
        "method": "GET",
        "status": 200,
        "client": "127.0.0.1",
        "path": "/path",
    }
    assert line["tunnel"].startswith("tn_")


@pytest.mark.needs("openssl")
def test_openssl_sees_a_certificate_of_the_local_authority_for_every_name(edge: Edge) -> None:
    result = subprocess.run(
        [
            "openssl",
            "s_client",
            *("-connect", f"127.0.0.1:{edge.settings.edge_port}", "-servername", "any.tunnels.localhost"),
            *("-CAfile", str(edge.settings.directory / "authority.crt")),
            *("-verify_hostname", "any.tunnels.localhost", "-brief", "-verify_return_error"),
        ],
        capture_output=True,
        text=True,
        input="",
    )

    assert "Verification: OK" in result.stderr


def test_no_private_key_is_in_a_file_and_the_socket_of_keys_is_of_two_users(edge: Edge) -> None:
    folder = edge.settings.directory
    files_with_keys = {file.name for file in folder.iterdir() if file.is_file() and b"PRIVATE KEY" in file.read_bytes()}

    assert files_with_keys == {"authority.pem", "ssh_host_ed25519_key"}
    assert edge.settings.discovery_socket.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("name", ["x\x7freal-ip", "x\xa0real-ip", "xéreal-ip"])
def test_a_header_whose_name_is_not_of_ascii_is_refused(edge: Edge, tunnel_name: str, name: str) -> None:
    with edge.connect(tunnel_name, "http/1.1") as connection:
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: {tunnel_name}.tunnels.localhost\r\n{name}: 6.6.6.6\r\n\r\n".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert edge.curl(tunnel_name, "--http2", "-w", "%{http_code}", *headers([name])) == "000"  # the connection ends
