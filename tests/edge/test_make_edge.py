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

import httpx
import pytest

from tests.conftest import ROOT, free_port
from tests.edge.conftest import needs_envoy
from tests.edge.running import Key, Ssh, until, upstream

PYTHON = ROOT / ".venv-edge" / "bin" / "python"
pytestmark = needs_envoy


@dataclass
class Started:
    """An API with an edge beside it."""

    folder: Path
    api: httpx.Client
    environment: dict[str, str]
    edge: subprocess.Popen[str]
    key: Key

    def child(self, name: str) -> int:
        """The process id of a child of the edge."""
        said = subprocess.run(["pgrep", "-P", str(self.edge.pid), "-f", name], capture_output=True, text=True).stdout
        return int(said) if said.strip() else 0

    def ssh(self, *arguments: str, key: Key | None = None) -> Ssh:
        options = ["IdentitiesOnly=yes", "UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
        given = [part for option in options for part in ("-o", option)]
        where = ["-p", self.environment["SSH_PORT"], "-i", str((key or self.key).file)]
        return Ssh(["ssh", "-F", "none", *given, *where, "-tt", *arguments, "127.0.0.1"])

    def status(self, name: str) -> str:
        port, host = self.environment["EDGE_PORT"], f"{name}.tunnels.localhost"
        trust = ["--cacert", str(self.folder / "edge" / "authority.crt"), "--resolve", f"{host}:{port}:127.0.0.1"]
        command = ["curl", "-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", *trust]
        return subprocess.run([*command, f"https://{host}:{port}/"], capture_output=True, text=True).stdout

    def tunnels(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("/tunnels").json()["tunnels"]
        return found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """make run, a credential, and the edge."""
    folder = tmp_path_factory.mktemp("local") / ("deep" * 30)  # no socket can have so long a name
    folder.mkdir()
    ports = {name: str(free_port()) for name in ("PORT", "CLOUD_PORT", "SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
    environment = {**_plain(), **ports, "LOCAL_DIR": str(folder), "LEASE": "6"}
    run = subprocess.Popen(
        [sys.executable, "-m", "infra.local.run"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        until((folder / "env").exists, within=60)
        given = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines())
        headers = {"Authorization": f"Bearer {given['API_KEY'].strip(chr(39))}", "Service-Version": "2"}
        api = httpx.Client(base_url=given["BASE_URL"].strip("'"), headers=headers, trust_env=False)
        until(lambda: _answers(api), within=60)
        key = _credential(api, folder, "key")
        edge = _edge(folder, environment)
        try:
            yield Started(folder, api, environment, edge, key)
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
        assert (tunnel["public_url"], tunnel["proto"]) == (f"https://demo.tunnels.localhost:{_port(started)}", "https")
        client.kill()
        until(lambda: started.status("demo") == "404" and started.tunnels() == [], within=5)


def test_it_may_have_as_many_connections_as_the_system_permits(started: Started) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name in ("gateway", "bootstrap"):
        assert resource.prlimit(started.child(name), resource.RLIMIT_NOFILE) == (most, most)


def test_a_name_is_had_ended_and_seen_by_nobody_else(started: Started) -> None:
    stranger = _stranger(started)
    key = _credential(stranger, started.folder, "stranger")
    mine = started.ssh("-R", "mine:80:localhost:1")
    mine.says("is online")
    other = started.ssh("-R", "mine:80:localhost:1", key=key)
    assert other.ends() == 1
    assert other.said == ["mine.tunnels.localhost is taken by another credential: choose another name."]
    assert stranger.get("/tunnels").json()["tunnels"] == []
    (tunnel,) = started.tunnels()
    assert stranger.get(f"/tunnels/{tunnel['id']}").status_code == 404
    mine.kill()


def test_the_operator_ends_a_tunnel_and_bans_its_name(started: Started) -> None:
    client = started.ssh("-R", "banned:80:localhost:1")
    client.says("is online")
    _operate(started, "names", "ban", "banned.tunnels.localhost")
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
        started.api.get("/tunnels")


def _online(started: Started, forward: str) -> bool:
    client = started.ssh("-R", forward)
    until(lambda: client.is_over or any("is online" in line for line in client.said), within=30)
    return not client.is_over


def _port(started: Started) -> str:
    return started.environment["EDGE_PORT"]


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/tunnels").status_code == 200
    except httpx.TransportError:
        return False


def _cloud(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    lines = (folder / "cloud.env").read_text().splitlines()
    return {**environment, **dict(line.removeprefix("export ").split("=", 1) for line in lines)}


def _edge(folder: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    edge = subprocess.Popen(
        ["sh", "-c", f"ulimit -S -n 256; exec {PYTHON} -m edge"],
        cwd=ROOT,
        env=_cloud(folder, environment),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert edge.stdout
    while "curl " not in (line := edge.stdout.readline()):
        assert line, "the edge has not started"
    return edge


def _credential(api: httpx.Client, folder: Path, name: str) -> Key:
    key = Key.make(folder, name)
    answer = api.post("/ssh_credentials", json={"public_key": key.file.with_suffix(".pub").read_text()})
    assert answer.status_code == 201, answer.text
    return key


def _operate(started: Started, *arguments: str) -> str:
    environment = _cloud(started.folder, started.environment)
    command = [sys.executable, "-m", "chalicelib", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def _stranger(started: Started) -> httpx.Client:
    token = _operate(started, "accounts", "create", "stranger").split()[-1]
    headers = {"Authorization": f"Bearer {token}", "Service-Version": "2"}
    return httpx.Client(base_url=started.api.base_url, headers=headers, trust_env=False)
