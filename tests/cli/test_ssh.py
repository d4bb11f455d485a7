"""Certificates in the agent or in files, their renewal through `Match exec`, and logins at a real sshd."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.conftest import User
from tests.conftest import Served, least
from tests.live.ssh import sshd
from tests.live.ssh.sshd import HOST, USER, Sshd
from tests.transports import RECORD, Client

RENEWALS = int(os.environ.get("TE_RENEWALS", "1"))  # with more than one, certificates live longer, for more connections
LIFETIME, CONNECTIONS = (20, 16) if RENEWALS > 1 else (10, 4)  # seconds of a short certificate, and who renews it
pytestmark = pytest.mark.needs("ssh", "sshd")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd"), "MaxStartups 100") as running:
        yield running


@pytest.fixture
def agent(admin_user: User, tmp_path: Path) -> Iterator[User]:
    """Return a signed-in user with an ssh-agent."""
    path = f"/tmp/te-agent-{os.getpid()}-{time.monotonic_ns()}"  # sockets have short paths
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    while not Path(path).exists():
        assert process.poll() is None
        time.sleep(0.01)
    yield admin_user.with_settings(SSH_AUTH_SOCK=path)
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture
def admin(api: Served) -> Client:
    return api.client()


@pytest.fixture
def authority(admin: Client, server: Sshd) -> str:
    """Return an authority that the server trusts."""
    authority = admin.create("/ssh_certificate_authorities", {})
    server.trust(authority)
    return str(authority["id"])


def list_agent_keys(user: User) -> list[str]:
    """Return the identities that the agent shows."""
    result = subprocess.run(["ssh-add", "-L"], env=user.environment, capture_output=True, text=True)
    return [line for line in result.stdout.splitlines() if line.startswith("ssh-")]


def count(admin: Client) -> int:
    return len(admin.get("/ssh_user_certificates").json["ssh_user_certificates"])


def configure(user: User, server: Sshd, block: str) -> Path:
    file = user.home / "ssh_config"
    options = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n"
    file.write_text(f"{block}\nHost *\n  Port {server.port}\n  User {USER}\n{options}")
    return file


def connect(user: User, config: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", str(config), HOST, *(command or ("echo", "in"))],
        env=user.environment, cwd=user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_first_login_takes_three_commands(agent: User, server: Sshd, authority: str) -> None:
    result = agent.run("ssh", "login", "--principal", USER)
    assert result.returncode == 0, result.stderr
    assert f"A certificate for {USER} until " in result.stderr
    assert [line.split()[0] for line in list_agent_keys(agent)] == ["ssh-ed25519-cert-v01@openssh.com"]
    assert list_agent_keys(agent)[0].split()[2] == "te:default"
    options = ("-F", "none", "-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null")
    inside = agent.run("ssh", *options, "-p", str(server.port), f"{USER}@{HOST}", "echo", "in")
    assert inside.stdout == "in\n", inside.stderr
    assert not [*(agent.home / ".local/state/te").glob("ssh/*")]


def test_a_new_certificate_replaces_the_one_of_its_authority(agent: User, admin: Client, authority: str) -> None:
    for _ in range(2):
        assert agent.run("ssh", "login", "--principal", USER, "--authority", authority).returncode == 0
    assert len(list_agent_keys(agent)) == 1
    other = admin.create("/ssh_certificate_authorities", {})["id"]
    assert agent.run("ssh", "login", "--authority", other).returncode == 0
    assert len(list_agent_keys(agent)) == 2


def test_a_certificate_is_renewed_before_its_end(agent: User, server: Sshd, admin: Client, authority: str) -> None:
    result = agent.run("ssh", "login", "--principal", USER, "--lifetime", f"{LIFETIME}s", "--authority", authority)
    assert result.returncode == 0, result.stderr
    config = configure(agent, server, agent.run("ssh", "config", "--host", HOST).stdout)
    assert connect(agent, config).stdout == "in\n"
    renewed_at = time.monotonic()
    assert count(admin) == 1
    for renewal in range(RENEWALS):
        time.sleep(max(0.0, renewed_at + LIFETIME * 0.82 - time.monotonic()))
        renewed_at = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            renewing = [*pool.map(lambda _: connect(agent, config), range(CONNECTIONS))]
        assert [(process.stdout, process.stderr) for process in renewing] == [("in\n", "")] * CONNECTIONS
        assert (count(admin), len(list_agent_keys(agent))) == (renewal + 2, 1)


def test_a_valid_certificate_delays_a_connection_little(agent: User, authority: str) -> None:
    agent.run("ssh", "login", "--principal", USER)

    def ratio() -> float:
        python = str(agent.te.parent / "python")
        return agent.seconds(str(agent.te), "ssh", "ensure", "host", USER) / agent.seconds(python, "-c", "import click")

    assert least(ratio, bound=2.0) <= 2.0


def test_sixteen_connections_refill_an_emptied_agent_once(
    agent: User, server: Sshd, admin: Client, authority: str
) -> None:
    agent.run("ssh", "login", "--principal", USER)
    config = configure(agent, server, agent.run("ssh", "config").stdout)
    for attempt in range(3):  # on a busy machine, some may have to wait for more than five seconds
        subprocess.run(["ssh-add", "-q", "-D"], env=agent.environment, check=True)
        with ThreadPoolExecutor(16) as pool:
            results = [*pool.map(lambda _: connect(agent, config), range(16))]
        assert (count(admin), len(list_agent_keys(agent))) == (attempt + 2, 1)
        if all(each.stdout for each in results):
            break
    assert [(each.stdout, each.stderr) for each in results] == [("in\n", "")] * 16


def test_files_are_used_without_an_agent(admin_user: User, server: Sshd, authority: str) -> None:
    result = admin_user.run("ssh", "login", "--principal", USER)
    assert result.returncode == 0, result.stderr
    key = admin_user.home / f".local/state/te/ssh/default-{authority}"
    assert f" is in {key} (-cert.pub).\n" in result.stderr
    assert {file.stat().st_mode & 0o777 for file in key.parent.iterdir()} == {0o600}
    RECORD.secrets.add("".join(key.read_text().splitlines()[2:-1]))
    config = configure(admin_user, server, admin_user.run("ssh", "config").stdout)
    assert connect(admin_user, config).stdout == "in\n"
    certificate, content = key.with_name(f"{key.name}-cert.pub"), key.read_text()
    certificate.write_text("broken")
    assert connect(admin_user, config).stdout == "in\n"
    assert certificate.read_text() != "broken"
    assert key.read_text() == content  # `ssh` may read both files while they are renewed

    old = certificate.read_text()
    assert admin_user.run("ssh", "login", "--principal", USER).returncode == 0
    assert key.read_text() != content
    certificate.write_text(old)  # as if the last command had ended between the two files
    RECORD.secrets.add("".join(key.read_text().splitlines()[2:-1]))
    assert connect(admin_user, config).stdout == "in\n"
    assert certificate.read_text() != old


def test_ensure_fails_with_one_sentence_and_soon(agent: User, api: Served, authority: str, tmp_path: Path) -> None:
    assert agent.run("ssh", "ensure", "host", "user").returncode == 1
    agent.run("ssh", "login", "--principal", USER)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = agent.home / ".config/te/config.toml"
        text = config.read_text()
        unreachable = {"silent": f"http://127.0.0.1:{silent.getsockname()[1]}", "refused": "http://127.0.0.1:9"}
        for url in unreachable.values():
            config.write_text(text.replace(api.base_url, url))
            assert agent.run("ssh", "ensure", "host", "user").returncode == 0  # the certificate is valid
        subprocess.run(["ssh-add", "-q", "-D"], env=agent.environment, check=True)
        for url in unreachable.values():
            config.write_text(text.replace(api.base_url, url))
            assert_fails(agent)
    config.write_text(text)
    assert_fails(agent.with_settings(SSH_AUTH_SOCK=""))
    assert_fails(agent.with_settings(SSH_AUTH_SOCK=str(tmp_path / "missing")))
    with socket.socket(socket.AF_UNIX) as deaf:
        path = f"/tmp/te-deaf-{time.monotonic_ns()}"
        deaf.bind(path)
        deaf.listen()
        assert_fails(agent.with_settings(SSH_AUTH_SOCK=path))
        os.unlink(path)


def assert_fails(user: User) -> None:
    """Assert that `ensure` exits with 1 and one sentence, within five seconds."""

    def seconds() -> float:
        start = time.monotonic()
        result = user.run("ssh", "ensure", "host", "user")
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.stderr
        return time.monotonic() - start

    assert least(seconds, bound=5.0) <= 5.0


def test_no_secret_is_in_the_arguments_or_environment_of_a_process(agent: User, api: Served, authority: str) -> None:
    process_texts: list[bytes] = []
    stop = threading.Event()
    thread = threading.Thread(target=watch, args=(str(agent.te), process_texts, stop))
    thread.start()
    agent.run_anew("ssh", "login", "--principal", USER)
    agent.run_anew("whoami")
    stop.set()
    thread.join()
    assert process_texts
    assert not any(api.token.encode() in each for each in process_texts)


def watch(program: str, process_texts: list[bytes], stop: threading.Event) -> None:
    """Record the arguments and the environment of processes of a program."""
    while not stop.is_set():
        for process in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (process / "cmdline").read_bytes()
                if program.encode() in arguments:
                    process_texts.append(arguments + (process / "environ").read_bytes())
            except OSError:
                continue
        time.sleep(0.01)


def test_a_certificate_or_a_key_is_revoked(agent: User, admin: Client, authority: str) -> None:
    agent.run("ssh", "login", "--principal", USER)
    (certificate,) = admin.get("/ssh_user_certificates").json["ssh_user_certificates"]
    revoked = agent.run("revoke", certificate["id"], "--reason", "stolen")
    assert revoked.returncode == 0, revoked.stderr
    assert json.loads(revoked.stdout)["ssh_user_certificate_id"] == certificate["id"]
    (agent.home / "id.pub").write_text(certificate["public_key"])
    assert json.loads(agent.run("revoke", "id.pub").stdout)["public_key"].startswith("ssh-ed25519 ")
    assert json.loads(agent.run("revoke", "17").stdout)["serial"] == "17"
    assert agent.run("revoke", "no-such-file").returncode == 2
