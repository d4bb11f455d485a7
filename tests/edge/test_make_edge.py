"""`python -m edge` beside `make run`: real processes on the records of the API, killed one by one and together."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Served, free_port, serve
from tests.edge.conftest import needs_envoy
from tests.edge.running import Key, Ssh, ssh_command, until, upstream

PYTHON = ROOT / ".venv-edge" / "bin" / "python"
pytestmark = needs_envoy


@dataclass
class Started:
    """An API with an edge beside it."""

    api: Served
    ports: dict[str, str]
    edge: subprocess.Popen[str]
    key: Key

    def child(self, name: str) -> int:
        """Return the process id of a child of the edge."""
        said = subprocess.run(["pgrep", "-P", str(self.edge.pid), "-f", name], capture_output=True, text=True).stdout
        return int(said) if said.strip() else 0

    def ssh(self, *arguments: str, key: Key | None = None) -> Ssh:
        return Ssh(ssh_command(int(self.ports["SSH_PORT"]), key or self.key, "-tt", *arguments, "127.0.0.1"))

    def status(self, name: str) -> str:
        port, host = self.ports["EDGE_PORT"], f"{name}.tunnels.localhost"
        trust = ["--cacert", str(self.api.local / "edge" / "authority.crt"), "--resolve", f"{host}:{port}:127.0.0.1"]
        command = ["curl", "-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", *trust]
        return subprocess.run([*command, f"https://{host}:{port}/"], capture_output=True, text=True).stdout

    def tunnels(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.client().get("/tunnels").json["tunnels"]
        return found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """make run, a credential, and the edge."""
    folder = tmp_path_factory.mktemp("local") / ("deep" * 30)  # no socket can have so long a name
    folder.mkdir()
    ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
    run, api = serve(folder)
    try:
        key = _credential(api, "key")
        edge = _edge(api, {**ports, "LOCAL_DIR": str(folder), "LEASE": "6"})
        try:
            yield Started(api, ports, edge, key)
        finally:
            edge.send_signal(signal.SIGINT)
            edge.wait(20)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(30)


def test_an_address_is_served_by_the_records_of_the_api_and_listed_there(started: Started) -> None:
    with upstream() as port:
        client = started.ssh("-R", f"demo:80:127.0.0.1:{port}")
        client.says("is online")
        until(lambda: started.status("demo") == "200", within=10)
        (tunnel,) = started.tunnels()
        assert (tunnel["public_url"], tunnel["proto"]) == (
            f"https://demo.tunnels.localhost:{started.ports['EDGE_PORT']}",
            "https",
        )
        client.kill()
        until(lambda: started.status("demo") == "404" and started.tunnels() == [], within=5)


def test_it_may_have_as_many_connections_as_the_system_permits(started: Started) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name in ("gateway", "bootstrap"):
        assert resource.prlimit(started.child(name), resource.RLIMIT_NOFILE) == (most, most)


def test_envoys_environment_holds_nothing(started: Started) -> None:
    environments = [Path(f"/proc/{started.child(name)}/environ").read_bytes() for name in ("control", "bootstrap")]
    assert b"AWS_ACCESS_KEY_ID=" in environments[0]
    assert environments[1] == b""


def test_a_name_is_had_ended_and_seen_by_nobody_else(started: Started) -> None:
    newcomer = started.api.newcomer()
    key, stranger = _credential(newcomer, "stranger"), newcomer.client()
    mine = started.ssh("-R", "mine:80:localhost:1")
    mine.says("is online")
    other = started.ssh("-R", "mine:80:localhost:1", key=key)
    assert other.ends() == 1
    assert other.said == ["mine.tunnels.localhost is taken by another credential: choose another name."]
    assert stranger.get("/tunnels").json["tunnels"] == []
    (tunnel,) = started.tunnels()
    assert stranger.get(f"/tunnels/{tunnel['id']}").status == 404
    mine.kill()


def test_the_operator_ends_a_tunnel_and_bans_its_name(started: Started) -> None:
    client = started.ssh("-R", "banned:80:localhost:1")
    client.says("is online")
    ban = [sys.executable, "-m", "chalicelib", "names", "ban", "banned.tunnels.localhost"]
    subprocess.run(ban, cwd=ROOT, env={**os.environ, **started.api.cloud}, check=True, capture_output=True)
    assert started.tunnels() == []
    assert client.ends(within=6) == 1
    again = started.ssh("-R", "banned:80:localhost:1")
    assert again.ends() == 1
    assert again.said == ["banned.tunnels.localhost may not be used here: choose another name."]


@pytest.mark.parametrize("names", [["control", "bootstrap"], ["gateway", "control"]])
def test_whatever_is_killed_comes_back_with_its_names(started: Started, names: list[str]) -> None:
    with upstream() as port:
        first = started.ssh("-R", f"back:80:127.0.0.1:{port}")
        first.says("is online")
        until(lambda: started.status("back") == "200", within=10)
        for name in names:
            os.kill(started.child(name), signal.SIGKILL)
        until(lambda: all(started.child(name) for name in names), within=30)
        if "gateway" in names:
            first.ends()
            until(lambda: _online(started, f"back:80:127.0.0.1:{port}"), within=60)
        until(lambda: started.status("back") == "200", within=20)


def _online(started: Started, forward: str) -> bool:
    client = started.ssh("-R", forward)
    until(lambda: client.is_over or any("is online" in line for line in client.said), within=30)
    return not client.is_over


def _edge(api: Served, settings: dict[str, str]) -> "subprocess.Popen[str]":
    edge = subprocess.Popen(
        ["sh", "-c", f"ulimit -S -n 256; exec {PYTHON} -m edge"],
        cwd=ROOT,
        env={**os.environ, **api.cloud, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert edge.stdout
    while "curl " not in (line := edge.stdout.readline()):
        assert line, "the edge has not started"
    return edge


def _credential(api: Served, name: str) -> Key:
    key = Key.make(api.local, name)
    api.client().create("/ssh_credentials", {"public_key": key.file.with_suffix(".pub").read_text()})
    return key
