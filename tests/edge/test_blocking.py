"""Networks that the operator has blocked, at the public ports of an edge host."""

import socket
import ssl
from pathlib import Path

from tests.edge.conftest import needs_envoy
from tests.edge.running import Edge, listens, running, until

_ASKED = b"GET / HTTP/1.1\r\nhost: demo.tunnels.localhost\r\n\r\n"


def _connected_from(edge: Edge, source: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    raw = socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10, (source, 0))
    return context.wrap_socket(raw, server_hostname="demo.tunnels.localhost")


def _status(connection: ssl.SSLSocket) -> int:
    connection.sendall(_ASKED)
    return int(connection.recv(4096).split(b" ")[1])


@needs_envoy
def test_a_blocked_network_is_refused_within_five_seconds_also_on_an_open_connection(
    tmp_path: Path, origin: int
) -> None:
    with running(tmp_path, with_envoy=True, abuse_contact="100% abuse@example.com") as edge:
        client = edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}")
        client.says("Whoever sees abuse is asked to tell 100% abuse@example.com")
        until(lambda: edge.status("demo") == "200")
        with _connected_from(edge, "127.0.0.2") as bad, _connected_from(edge, "127.0.0.1") as good:
            assert (_status(bad), _status(good)) == (200, 200)
            edge.store.networks.add("127.0.0.2/32")
            until(lambda: _status(bad) == 403, within=5)
            assert _status(good) == 200
            bad.sendall(_ASKED)
            assert bad.recv(4096).endswith(b"denied\nAbuse of this address? Tell 100% abuse@example.com\n")
            edge.store.networks.clear()
            until(lambda: _status(bad) == 200, within=5)


@needs_envoy
def test_a_new_connection_of_bytes_from_a_blocked_network_ends_when_its_client_sends(
    tmp_path: Path, origin: int
) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        port = edge.settings.tcp_ports[0]
        edge.ssh(edge.key("acct_A"), "-R", f"{port}:127.0.0.1:{origin}")
        until(lambda: listens(port))

        def answer(source: str) -> bytes:
            with socket.create_connection(("127.0.0.1", port), 10, (source, 0)) as connection:
                connection.sendall(_ASKED)
                try:
                    return connection.recv(12)
                except ConnectionResetError:
                    return b""

        assert answer("127.0.0.2") == b"HTTP/1.1 200"
        edge.store.networks.add("127.0.0.2/32")
        until(lambda: answer("127.0.0.2") == b"", within=5)
        assert answer("127.0.0.1") == b"HTTP/1.1 200"
