"""Honest sign-ins beside those that mean harm, from addresses of this machine, and what the log tells of them."""

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.edge.running import Edge, Key, running, until
from tests.machine import ROOT


def _count_sign_ins(edge: Edge) -> int:
    """Return how many of ten `ssh` have a tunnel within ten seconds."""
    clients = []
    for number in range(10):
        clients.append(edge.ssh(edge.key("acct_A"), "-R", f"honest{number}:80:localhost:1", terminal="-T"))
        time.sleep(0.1)
    with contextlib.suppress(AssertionError):
        until(lambda: all(client.lines or client.is_over for client in clients), within=10)
    return sum(any("is online" in line for line in client.lines) for client in clients)


def _connect(edge: Edge, source: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", edge.settings.ssh_port), 5, (source, 0))
    connection.setblocking(False)
    return connection


def _is_open(connection: socket.socket) -> bool:
    """Tell whether the other side has not ended a connection."""
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    connection.close()
    return False


def _holds_thirty(edge: Edge, is_over: threading.Event) -> None:
    """Keep ten sign-ins from each of three addresses, each past the versions, and begin each again that is ended."""
    connections_by_source: dict[str, list[socket.socket]] = {f"127.0.0.{number}": [] for number in (11, 12, 13)}
    while not is_over.wait(0.05):
        for source, connections in connections_by_source.items():
            connections[:] = [connection for connection in connections if _is_open(connection)]
            for _ in range(10 - len(connections)):
                connections.append(_connect(edge, source))
                connections[-1].send(b"SSH-2.0-OpenSSH_9.2\r\n")


def _opens_three_hundred_a_second(edge: Edge, is_over: threading.Event) -> None:
    """Open silent connections from six addresses, and keep the last thousand."""
    connections: list[socket.socket] = []
    while not is_over.wait(0.02):
        connections += [_connect(edge, f"127.0.0.{number}") for number in range(21, 27)]
        for connection in connections[:-1000]:
            connection.close()
        del connections[:-1000]


@contextlib.contextmanager
def _beside(attack: Callable[[Edge, threading.Event], None], edge: Edge) -> Iterator[None]:
    is_over = threading.Event()
    thread = threading.Thread(target=attack, args=(edge, is_over))
    thread.start()
    try:
        time.sleep(0.5)
        yield
    finally:
        is_over.set()
        thread.join(10)


@pytest.mark.parametrize("attack", [_holds_thirty, _opens_three_hundred_a_second])
def test_eight_of_ten_honest_sign_ins_succeed_beside_an_attack(
    tmp_path: Path, attack: Callable[[Edge, threading.Event], None]
) -> None:
    with running(tmp_path, with_envoy=False) as edge, _beside(attack, edge):
        assert _count_sign_ins(edge) >= 8


def _filter() -> str:
    """Return fail2ban's filter as docs/edge-operations.md has it."""
    page = (ROOT / "docs/edge-operations.md").read_text()
    return page.partition("```ini\n[Definition]")[2].partition("```")[0]


def _fails(edge: Edge) -> None:
    """Have sign-ins fail: by a wrong key, without an answer, and dropped and then refused."""
    assert edge.ssh(Key.make(edge.folder, "wrong"), "-R", "a:80:localhost:1").wait() == 255
    silent = _connect(edge, "127.0.0.31")
    flood = [_connect(edge, "127.0.0.32") for _ in range(40)]
    until(lambda: not _is_open(silent) and not any(map(_is_open, flood)))


@pytest.fixture
def lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the log of a gateway at which sign-ins have failed, and one has not."""
    with running(tmp_path, with_envoy=False, sign_in_timeout=3) as edge:
        _fails(edge)
        edge.ssh(edge.key("acct_A"), "-R", "good:80:localhost:1").wait_for("is online")
    return capfd.readouterr().err.splitlines()


@pytest.mark.needs("fail2ban")
def test_fail2ban_reads_each_failed_dropped_and_refused_sign_in(tmp_path: Path, lines: list[str]) -> None:
    events = [json.loads(line) for line in lines if '"sign_in_' in line]
    reasons = {(event["event"], event["address"], event.get("reason", "")) for event in events}
    assert reasons == {
        ("sign_in_failed", "127.0.0.1", "the gateway accepted none of the client's keys"),
        ("sign_in_failed", "127.0.0.31", "the client did not sign in within the time limit"),
        ("sign_in_failed", "127.0.0.32", "the client did not sign in within the time limit"),
        ("sign_in_dropped", "127.0.0.32", "too many sign-ins from its address"),
        ("sign_in_refused", "127.0.0.32", ""),
    }

    log, rules = tmp_path / "gateway.log", tmp_path / "tunnel-edge.conf"
    journal = [f"host tunnel-edge-gateway[7]: {line}" for line in lines]
    log.write_text("".join(f"{line}\n" for line in [*lines, *journal]))
    rules.write_text(f"[Definition]{_filter()}")
    command = ["fail2ban-regex", "-o", "ip", str(log), str(rules)]
    read = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert Counter(read) == Counter(event["address"] for event in events for _ in range(2))


def _jail(page: str) -> str:
    """Return the lines of fail2ban's jail as docs/edge-operations.md has it, but for where the lines come from."""
    lines = page.partition("```\n[tunnel-edge]\n")[2].partition("```")[0].splitlines()
    return "".join(f"{line}\n" for line in lines if not line.startswith("backend"))


@contextlib.contextmanager
def _fail2ban(folder: Path, log: Path) -> Iterator[Path]:
    """Run fail2ban with the filter and jail of docs/edge-operations.md; yield the file of banned addresses."""
    banned, page = folder / "banned", (ROOT / "docs/edge-operations.md").read_text()
    jail = f"[tunnel-edge]\n{_jail(page)}filter = tunnel-edge\nlogpath = {log}\nbackend = polling\naction = told\n"
    files = {
        "fail2ban.conf": f"[Definition]\nloglevel = INFO\nlogtarget = {folder}/fail2ban.log\nsyslogsocket = auto\n"
        f"socket = {folder}/socket\npidfile = {folder}/pid\ndbfile = None\ndbpurgeage = 1d\n",
        "jail.conf": jail,
        "filter.d/tunnel-edge.conf": f"[Definition]{_filter()}",
        "action.d/told.conf": f"[Definition]\nactionban = echo <ip> >> {banned}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    banned.touch()
    command = ["fail2ban-server", "-f", "-c", str(folder), "-s", f"{folder}/socket", "-p", f"{folder}/pid", "start"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield banned
        finally:
            server.terminate()


@pytest.mark.needs("fail2ban")
def test_fail2ban_bans_whoever_floods_and_nobody_who_signs_in(tmp_path: Path, lines: list[str]) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "fail2ban").mkdir()
    with _fail2ban(tmp_path / "fail2ban", log) as banned:
        until(lambda: bool(banned.read_text()), within=10)
        time.sleep(0.5)
        assert banned.read_text().split() == ["127.0.0.32"]


def test_a_blocked_network_is_sent_away_and_its_connections_end_within_five_seconds(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False) as edge:
        client = edge.ssh(edge.key("acct_A"), "-R", "demo:80:localhost:1")
        client.wait_for("is online")
        edge.store.block("127.0.0.0/8")

        assert client.wait(within=5) == 255
        assert any("The operator has blocked your network." in line for line in client.lines)
        until(lambda: not edge.store.online)
        assert edge.ssh(edge.key("acct_A"), "-R", "demo:80:localhost:1").wait() == 255
        edge.store.block()
        until(lambda: _is_let_in(edge))


def _is_let_in(edge: Edge) -> bool:
    client = edge.ssh(edge.key("acct_A"), "-R", "demo:80:localhost:1")
    until(lambda: client.is_over or any("is online" in line for line in client.lines))
    return not client.is_over
