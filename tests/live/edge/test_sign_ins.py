"""Who may sign in at the gateway, tried with OpenSSH."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib import ids
from chalicelib.crypto import public_keys
from edge.store import grants
from tests.conftest import least
from tests.edge import served_records
from tests.live.edge.running import Edge, Key, Ssh, running, ssh_command, until
from tests.transports import Client


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """Return an SSH certificate authority."""
    return Key.make(tmp_path_factory.mktemp("authority"), "ca")


def certify(edge: Edge, authority: Key, *options: str, principals: str = "", days: str = "-1m:+1d") -> Key:
    """Return a key with a certificate that the store knows."""
    key = Key.make(edge.folder, f"certified-{time.monotonic_ns()}")
    id = ids.new("sucrt")
    option_arguments = [part for option in options for part in ("-O", option)]
    principal_arguments = ["-n", principals] if principals else []
    command = [
        "ssh-keygen",
        "-q",
        "-s",
        str(authority.file),
        "-I",
        id,
        "-z",
        "1",
        *principal_arguments,
        "-V",
        days,
        *option_arguments,
        f"{key.file}.pub",
    ]
    subprocess.run(command, check=True)
    lines = (authority.file.with_suffix(".pub"), key.file.with_name(f"{key.file.name}-cert.pub"))
    served_records.put_user_certificate("acct_C", id, *(" ".join(path.read_text().split()[:2]) for path in lines))
    return key


def test_the_gateway_does_not_say_what_it_runs_on(edge: Edge) -> None:
    with socket.create_connection(("127.0.0.1", edge.settings.ssh_port), 5) as connection:
        assert connection.recv(100) == b"SSH-2.0-edge\r\n"


def test_a_client_verifies_the_gateway_by_what_it_announces(edge: Edge, tmp_path: Path) -> None:
    gateway = edge.store.up[edge.gateway.id]
    host, _, port = gateway.ssh_address.rpartition(":")
    known_hosts, wrong_hosts = tmp_path / "known_hosts", tmp_path / "wrong"
    known_hosts.write_text("".join(f"[{host}]:{port} {line}\n" for line in gateway.host_keys))
    wrong_hosts.write_text(f"[{host}]:{port} {Key.make(tmp_path, 'other').file.with_suffix('.pub').read_text()}")
    key = edge.key("acct_A")
    command = ssh_command(int(port), key, "-N", "-R", "verified:80:localhost:1", host)
    assert opens_a_tunnel(edge, command, known_hosts)
    assert not opens_a_tunnel(edge, command, wrong_hosts)


def opens_a_tunnel(edge: Edge, command: list[str], known_hosts: Path) -> bool:
    """Return whether a client that connects only to known hosts opens a tunnel, and end it."""
    strict = {
        "UserKnownHostsFile=/dev/null": f"UserKnownHostsFile={known_hosts}",
        "StrictHostKeyChecking=no": "StrictHostKeyChecking=yes",
    }
    client = Ssh([strict.get(part, part) for part in command])
    edge.clients.append(client)
    until(lambda: client.is_over or bool(edge.open_tunnels()))
    has_opened = bool(edge.open_tunnels())
    client.kill()
    until(lambda: not edge.open_tunnels())
    return has_opened


def test_a_key_without_a_credential_is_not_let_in(edge: Edge) -> None:
    client = edge.ssh(Key.make(edge.folder, "stranger"), "-R", "a:80:localhost:1")

    assert client.wait() == 255
    assert any("Permission denied (publickey)" in line for line in client.lines)


def list_printed(edge: Edge, *keys: Key) -> list[str]:
    """Return what ssh prints at its usual log level."""
    key_arguments = [part for key in keys[1:] for part in ("-i", str(key.file))]
    command = ssh_command(edge.settings.ssh_port, keys[0], *key_arguments, "-N", "-R", "printed:80:localhost:1")
    client = Ssh([*(argument.replace("=ERROR", "=INFO") for argument in command), "somebody@127.0.0.1"])
    edge.clients.append(client)
    until(lambda: client.is_over or bool(edge.store.online))
    client.kill()
    client.wait()
    return [line for line in client.lines if line and not line.startswith(("Warning: Permanently", "Allocated port"))]


@pytest.fixture
def forgiving(tmp_path: Path) -> Iterator[Edge]:
    """Run an edge that refuses no address, however many of its sign-ins fail."""
    with running(tmp_path, with_envoy=False, max_penalty=1) as forgiving_edge:
        yield forgiving_edge


def test_every_key_that_does_not_sign_in_gets_the_same_sentence(forgiving: Edge, authority: Key) -> None:
    deleted, unknown = forgiving.key("acct_A"), certify(forgiving, authority)
    forgiving.store.revoke(deleted.fingerprint)
    served_records.remove_user_certificates("acct_C")
    keys = [
        Key.make(forgiving.folder, "unknown"),
        deleted,
        unknown,
        certify(forgiving, authority, days="-2d:-1d"),
        certify(forgiving, authority, principals="alice"),
    ]
    sentence = (
        "This key cannot sign in here: it belongs to no active SSH credential and no valid user certificate. "
        "To use it, create an SSH credential with this key."
    )
    for key in keys:
        assert list_printed(forgiving, key) == [sentence, "somebody@127.0.0.1: Permission denied (publickey)."]


def test_a_key_that_signs_in_gets_no_sentence_and_one_after_wrong_ones_gets_it_once(forgiving: Edge) -> None:
    wrong = [Key.make(forgiving.folder, f"before{number}") for number in range(2)]
    assert list_printed(forgiving, forgiving.key("acct_A")) == []
    until(lambda: not forgiving.store.online)
    (line,) = list_printed(forgiving, *wrong, forgiving.key("acct_A"))
    assert line.startswith("This key cannot sign in here")


def test_a_user_certificate_of_an_authority_signs_in(edge: Edge, authority: Key) -> None:
    edge.ssh(certify(edge, authority), "-R", "certified:80:localhost:1").wait_for("https://certified.tunnels.localhost")


REFUSALS = {
    "other:80:localhost:1": "does not permit other.tunnels.localhost",
    "app.example.com:80:localhost:1": "does not permit app.example.com",
    "80:localhost:1": "permits no random name",
    "region=us:80:localhost:1": "does not permit region=us",
    "region=eu,tier=a:80:localhost:1": "does not permit tier=a",
    "0:localhost:1": "permits no random port",
}


def test_a_certificate_binds_only_what_its_rules_permit(edge: Edge, admin: Client, tmp_path: Path) -> None:
    key = Key.make(tmp_path, "restricted")
    rules = "bind:demo.tunnels.localhost,bind:region=eu"
    request = {
        "ssh_certificate_authority_id": (authority := admin.create("/ssh_certificate_authorities", {}))["id"],
        "public_key": key.file.with_suffix(".pub").read_text(),
        "extensions": {"permit-port-forwarding": "", "permit-pty": "", "bind@tunnel-edge": rules},
    }
    certificate = admin.create("/ssh_user_certificates", request)
    (tmp_path / "restricted-cert.pub").write_text(certificate["certificate"])
    signer = public_keys.fingerprint(authority["public_key"])
    grant = grants.find_by_certificate(signer, certificate["id"])
    assert grant
    assert grant.acl == tuple(rules.split(","))
    edge.ssh(key, "-R", "demo:80:localhost:1").wait_for("https://demo.tunnels.localhost")
    edge.ssh(key, "-R", "region=eu:80:localhost:1").wait_for("is online with region=eu")
    for forward, sentence in REFUSALS.items():
        edge.ssh(key, "-R", forward).wait_for(f"The ACL of {certificate['id']} {sentence}")


def test_a_certificate_for_another_principal_is_not_let_in(edge: Edge, authority: Key) -> None:
    key = certify(edge, authority, principals="alice,bob")

    assert edge.ssh(key, "-l", "mallory", "-R", "p:80:localhost:1").wait() == 255
    edge.ssh(key, "-l", "bob", "-R", "p:80:localhost:1").wait_for("is online")


@pytest.mark.parametrize("days", ["-2d:-1d", "+1d:+2d"])
def test_a_certificate_outside_of_its_time_is_not_let_in(edge: Edge, authority: Key, days: str) -> None:
    assert edge.ssh(certify(edge, authority, days=days), "-R", "t:80:localhost:1").wait() == 255


def test_a_certificate_holds_for_its_source_addresses_only(edge: Edge, authority: Key) -> None:
    elsewhere = certify(edge, authority, "source-address=192.0.2.0/24")

    assert edge.ssh(elsewhere, "-R", "s:80:localhost:1").wait() == 255
    edge.ssh(certify(edge, authority, "source-address=127.0.0.0/8"), "-R", "s:80:localhost:1").wait_for("is online")


def test_a_certificate_that_permits_no_forwarding_opens_no_tunnel_and_says_why(edge: Edge, authority: Key) -> None:
    client = edge.ssh(certify(edge, authority, "clear", "permit-pty"), "-R", "f:80:localhost:1")

    assert client.wait() == 1
    assert any("it needs the extension permit-port-forwarding" in line for line in client.lines)


def test_a_certificate_that_was_deleted_is_not_let_in(edge: Edge, authority: Key) -> None:
    key = certify(edge, authority)
    served_records.remove_user_certificates("acct_C")

    assert edge.ssh(key, "-R", "d:80:localhost:1").wait() == 255


def test_whoever_tries_six_wrong_keys_is_sent_away(edge: Edge, tmp_path: Path) -> None:
    wrong = [Key.make(tmp_path, f"wrong{number}") for number in range(6)]
    right = edge.key("acct_A")
    key_arguments = [part for key in wrong for part in ("-i", str(key.file))]

    client = edge.ssh(wrong[0], *key_arguments, "-i", str(right.file), "-R", "six:80:localhost:1")

    assert client.wait() == 255
    assert any(
        "Your client tried too many keys: choose one with ssh -o IdentitiesOnly=yes -i FILE." in line
        for line in client.lines
    )


def test_five_wrong_keys_are_forgiven(edge: Edge, tmp_path: Path) -> None:
    wrong = [Key.make(tmp_path, f"wrong{number}") for number in range(5)]
    key_arguments = [part for key in wrong for part in ("-i", str(key.file))]

    edge.ssh(wrong[0], *key_arguments, "-i", str(edge.key("acct_A").file), "-R", "five:80:localhost:1").wait_for(
        "is online"
    )


def test_nobody_is_let_in_while_the_store_is_away_and_everybody_is_told_that(edge: Edge) -> None:
    key = edge.key("acct_A")
    edge.store.is_away = True
    try:
        client = edge.ssh(key, "-R", "away:80:localhost:1")
        assert client.wait() == 255
        assert any(
            "The gateway cannot reach its store just now: try again in a moment." in line for line in client.lines
        )
    finally:
        edge.store.is_away = False


def test_connections_that_never_sign_in_are_ended(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, sign_in_timeout=1) as edge:
        silent = socket.create_connection(("127.0.0.1", edge.settings.ssh_port))
        silent.settimeout(5)

        assert silent.recv(100).startswith(b"SSH-2.0-")
        while silent.recv(4096):
            pass

        until(lambda: len(edge.gateway.sign_ins) == 0)


def test_a_flood_of_half_open_sign_ins_keeps_nobody_out_for_longer_than_two_seconds(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False) as edge, contextlib.ExitStack() as flood:
        for _ in range(2000):
            there = ("127.0.0.1", edge.settings.ssh_port)
            flood.enter_context(socket.create_connection(there, source_address=("127.0.0.2", 0)))

        key = edge.key("acct_A")
        assert least(lambda: _seconds_to_a_tunnel(edge, key), bound=2) < 2
        assert len(edge.gateway.sign_ins) <= edge.settings.limits.max_sign_ins_per_address


def _seconds_to_a_tunnel(edge: Edge, key: Key) -> float:
    start = time.monotonic()
    while True:
        client = edge.ssh(key, "-R", "good:80:localhost:1", terminal="-T")
        until(lambda client=client: bool(client.lines) or client.is_over, within=20)  # type: ignore[misc]
        if any("is online" in line for line in client.lines):
            return time.monotonic() - start
