"""`te http` and its family from the wheel, beside `make run` and `make edge`."""

import json
import os
import signal
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from tests.cli.conftest import User
from tests.conftest import Served
from tests.live.cli.conftest import running_te
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.processes import Platform
from tests.live.edge.running import listens, until, upstream

pytestmark = needs_envoy
KILLS = os.environ.get("TE_KILLS")  # how often the gateway is killed, with nothing beside this test


@pytest.fixture
def configured_user(user: User, api: Served, platform: Platform) -> User:
    """Return a user of the API with the edge."""
    return user.with_settings(TE_URL=api.base_url, TE_TOKEN=api.token)


def state(user: User) -> Path:
    return user.home / ".local/state/te"


def test_a_tunnel_has_an_address_and_a_credential_of_its_own(
    configured_user: User, platform: Platform, api: Served
) -> None:
    with upstream() as port, running_te(configured_user, "http", str(port), "--name", "first") as client:
        assert client.address() == f"https://first.tunnels.localhost:{platform.ports['EDGE_PORT']}"
        until(lambda: platform.status("first") == "200")
        link = next(line for line in client.stderr_lines if "http://127.0.0.1" in line)
        assert link.startswith("Inspector: http://127.0.0.1:")
        result = configured_user.run("requests", "list", "-o", "json")
        assert result.stdout, result.stderr
        rows = json.loads(result.stdout)
        assert [(row["method"], row["path"], row["status"]) for row in rows][-1:] == [("GET", "/", 200)]
        replayed = json.loads(configured_user.run("requests", "replay", str(rows[-1]["id"]), "-o", "json").stdout)
        assert (replayed["status"], replayed["replay_of"]) == (200, rows[-1]["id"])
        assert "x-te-replay: 1" in replayed["response"]["body"]
        exported = configured_user.run("requests", "export", str(rows[-1]["id"]), "--as", "curl").stdout
        assert exported.startswith("curl --globoff")
        assert configured_user.run("requests", "show", "99").returncode == 3
        edited = configured_user.run("requests", "replay", "1", "--edit")
        assert (edited.returncode, edited.stderr.count("\n")) == (2, 1)  # no editor waits for nobody
        key = (state(configured_user) / "ssh" / "default-tunnels").read_text()
        texts = [Path(f"/proc/{client.process.pid}/cmdline").read_text(), *client.stdout_lines, *client.stderr_lines]
        for secret in (api.token, key.splitlines()[1]):
            assert not [line for line in texts if secret in line]
        for file in state(configured_user).rglob("*"):
            assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file
        (sock,) = (state(configured_user) / "run").iterdir()
        assert client.end() == 130
        assert not sock.exists()
        assert not [line for line in client.stderr_lines if "Traceback" in line]
    assert client.stdout_lines == [client.address()]
    assert platform.ports["SSH_PORT"] in (state(configured_user) / "ssh/known_hosts").read_text()

    with running_te(configured_user, "http", "1", "--label", "Region=EU", "--no-inspect") as client:
        assert client.address().startswith("tn_")
    (credential,) = api.client().get("/ssh_credentials").json["ssh_credentials"]
    assert credential["acl"] == ["bind:first.tunnels.localhost", "bind:Region=EU"]


def test_a_profile_with_an_authority_uses_a_certificate_in_memory(user: User, api: Served, platform: Platform) -> None:
    user.login(api)
    authority = api.client().create("/ssh_certificate_authorities", {})["id"]
    api.client().send("PUT", f"/ssh_certificate_authorities/{authority}/policy", {"user": {"max_lifetime": 3600}})
    config = user.home / ".config/te/config.toml"
    config.write_text(config.read_text() + f'authority = "{authority}"\n')
    with upstream() as port, running_te(user, "http", str(port)) as client:
        name = client.address().removeprefix("https://").partition(".")[0]
        until(lambda: platform.status(name) == "200")
    (certificate,) = api.client().get("/ssh_user_certificates").json["ssh_user_certificates"]
    assert certificate["extensions"] == {"permit-port-forwarding": "", "bind@tunnel-edge": "bind:*.tunnels.localhost"}
    assert certificate["principals"] == ["tunnel-edge"]
    assert api.client().get("/ssh_credentials").json["ssh_credentials"] == []
    assert [file.name for file in (state(user) / "ssh").iterdir()] == ["known_hosts"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("http", "1", "--name", "www"), 7, "te: The name www is reserved for the operator: choose another."),
        (("tcp", "1", "--port", "9"), 7, "te: Port 9 is not served here"),
        (("tls", "1"), 2, "te: te tls needs the name of the server's certificate: add --name."),
        (("http", "nonsense"), 2, "te: nonsense is not an address of a local server"),
        (("http", "1", "--name", "a", "--label", "b=c"), 2, "te: A tunnel has either a name or labels"),
        (("http", "1", "--identity", "missing"), 2, "te: missing is not a private key that can be read"),
    ],
)
def test_what_cannot_be_opened_has_a_sentence_and_a_code(
    configured_user: User, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    result = configured_user.run(*arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.splitlines()[-1].startswith(sentence)


def test_a_tcp_port_is_drawn(configured_user: User) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as local,
        running_te(configured_user, "tcp", str(local.getsockname()[1])) as client,
    ):
        port = int(client.address().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 10) as visitor:
            connection, _ = local.accept()
            with connection:
                connection.sendall(b"hello")
                assert visitor.recv(5) == b"hello"


def test_a_killed_gateway_gets_the_same_name_back(configured_user: User, platform: Platform) -> None:
    stop, codes = threading.Event(), []

    def load() -> None:
        while not stop.is_set():
            codes.append(platform.visit("steady"))

    with upstream() as port, running_te(configured_user, "http", str(port), "--name", "steady") as client:
        client.address()
        until(lambda: platform.status("steady") == "200")
        loading = threading.Thread(target=load)
        loading.start()
        try:
            for _ in range(int(KILLS or "1")):
                noted = len(client.stderr_lines)
                os.kill(platform.child("gateway"), signal.SIGKILL)
                killed_at = time.monotonic()
                until(lambda: not listens(int(platform.ports["SSH_PORT"])))
                until(lambda: listens(int(platform.ports["SSH_PORT"])), within=30)
                back_at = time.monotonic()
                codes.clear()
                until(lambda: "200" in codes, within=30)
                absent, silent = back_at - killed_at, time.monotonic() - back_at
                attempts = sum("Trying again" in line for line in client.stderr_lines[noted:])
                print(f"Away for {absent:.1f} s and {attempts} attempts, the name for {silent:.1f} s more.")
                # the wait after so many attempts that failed, or after one more if this connection was a short one
                step = 1.25 * min(15, 2**attempts)
                assert silent < max(5 if KILLS else 10, step + 2), client.stderr_lines[noted:]
        finally:
            stop.set()
            loading.join()
        client.wait_for(f"{client.address()} is online again.")
    assert client.stdout_lines == [client.address()]
