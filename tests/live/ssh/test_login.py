"""Whom a real OpenSSH server lets in with a certificate of the service, when, from where, and to do what."""

import os
import time
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.live.ssh import keygen, sshd
from tests.live.ssh.conftest import Sign
from tests.live.ssh.sshd import HOST, USER, Login, Sshd, accepted, refused
from tests.transports import Client

EXPIRED = refused("Certificate invalid: expired")
NOT_YET_VALID = refused("Certificate invalid: not yet valid")
NOT_A_PRINCIPAL = refused("Certificate invalid: name is not a listed principal")
UNTRUSTED = refused("")
WRONG_ADDRESS = refused(
    f"cert: Authentication tried for {USER} with valid certificate but not from a permitted source address ({HOST})."
)


def in_seconds(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.fixture
def own_authority(http: Client) -> Any:
    """Return an authority of this test alone, which the server does not know yet."""
    return http.create("/ssh_certificate_authorities", {})


@pytest.mark.parametrize("principals", [[USER], ["somebody", USER]])
def test_a_fresh_certificate_lets_a_listed_principal_in(server: Sshd, sign: Sign, principals: list[str]) -> None:
    assert server.login(sign(principals=principals), "echo in") == accepted("in\n")


@pytest.mark.parametrize("principals", [["somebody"], [f"{USER}2", USER[:-1], f"{USER},somebody", "*"]])
def test_a_certificate_is_refused_for_another_principal(server: Sshd, sign: Sign, principals: list[str]) -> None:
    assert server.login(sign(principals=principals), "echo in") == NOT_A_PRINCIPAL


def test_a_certificate_without_principals_is_refused_where_TrustedUserCAKeys_trusts_its_authority(
    server: Sshd, sign: Sign
) -> None:
    assert server.login(sign(principals=[]), "echo in") == refused("Certificate lacks principal list")


def test_a_certificate_without_principals_lets_unnamed_users_in_where_authorized_keys_trusts_its_authority(
    server: Sshd, sign: Sign, own_authority: Any
) -> None:
    server.authorize(own_authority)
    identity = sign(principals=[], ssh_certificate_authority_id=own_authority["id"])
    # From 10.3 on no principals match no user.
    assert server.login(identity, "echo in").output == ("in\n" if keygen.version() < (10, 3) else "")


def test_a_certificate_of_an_authority_that_the_server_does_not_trust_is_refused(
    server: Sshd, sign: Sign, own_authority: Any
) -> None:
    identity = sign(ssh_certificate_authority_id=own_authority["id"])
    assert server.login(identity, "echo in") == UNTRUSTED


def test_a_certificate_outlives_its_authority(http: Client, server: Sshd, sign: Sign, own_authority: Any) -> None:
    server.trust(own_authority)
    identity = sign(ssh_certificate_authority_id=own_authority["id"])
    assert http.delete(f"/ssh_certificate_authorities/{own_authority['id']}").status == 204
    assert http.get(f"/ssh_certificate_authorities/{own_authority['id']}").status == 404
    assert http.get(f"/ssh_user_certificates/{identity.certificate['id']}").json == identity.certificate
    assert server.login(identity, "echo in") == accepted("in\n")


def test_a_certificate_is_accepted_from_valid_after_until_valid_until(server: Sshd, sign: Sign) -> None:
    identity, logins = sign(valid_after=in_seconds(3), valid_until=in_seconds(5)), list[Login]()
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while EXPIRED not in logins and datetime.now(UTC) < deadline:
        logins.append(server.login(identity, "true"))
        time.sleep(0.1)
    assert [end for end, _ in groupby(logins)] == [NOT_YET_VALID, accepted(""), EXPIRED]


def test_a_certificate_may_be_valid_from_the_first_to_the_last_second_there_is(server: Sshd, sign: Sign) -> None:
    identity = sign(valid_after="1970-01-01T00:00:00Z", valid_until="9999-12-31T23:59:59Z")
    assert server.login(identity, "echo in") == accepted("in\n")


@pytest.mark.parametrize("networks", ["127.0.0.1", "2001:DB8::/32,10.0.0.0/8,127.0.0.0/8"])
def test_a_certificate_is_accepted_from_inside_its_source_address(server: Sshd, sign: Sign, networks: str) -> None:
    identity = sign(critical_options={"source-address": networks})
    assert server.login(identity, "echo in") == accepted("in\n")


@pytest.mark.parametrize("networks", ["::/0", "2001:db8::/32,127.0.0.2/31"])
def test_a_certificate_is_refused_from_outside_its_source_address(server: Sshd, sign: Sign, networks: str) -> None:
    assert server.login(sign(critical_options={"source-address": networks}), "echo in") == WRONG_ADDRESS


@pytest.mark.parametrize("command", [["echo asked"], [], ["-s", "sftp"]], ids=["command", "shell", "subsystem"])
def test_a_certificate_with_a_forced_command_runs_that_command_only(
    server: Sshd, sign: Sign, command: list[str]
) -> None:
    identity = sign(critical_options={"force-command": "echo 'forced: ü'; echo twice"})
    assert server.login(identity, *command) == accepted("forced: ü\ntwice\n")


def test_both_critical_options_hold_together(server: Sshd, sign: Sign) -> None:
    forced = {"force-command": "echo forced"}
    inside = sign(critical_options=forced | {"source-address": "127.0.0.0/8"})
    outside = sign(critical_options=forced | {"source-address": "10.0.0.0/8"})
    assert server.login(inside, "echo asked") == accepted("forced\n")
    assert server.login(outside, "echo asked") == WRONG_ADDRESS


def test_without_permit_pty_no_terminal_is_given(server: Sshd, sign: Sign) -> None:
    identity = sign(extensions={"permit-user-rc": ""})
    assert server.login(identity, "-tt", "tty") == Login(255, "", "PTY allocation request failed on channel 0\n", "")
    assert server.login(identity, "echo in") == accepted("in\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root's sshd can hand a terminal over")
def test_with_permit_pty_a_terminal_is_given(server: Sshd, sign: Sign) -> None:
    for identity in (sign(), sign(extensions={}), sign(extensions={"permit-pty": ""})):
        assert server.login(identity, "-tt", "tty").output.startswith("/dev/")


def test_ports_are_forwarded_only_with_permit_port_forwarding(server: Sshd, sign: Sign) -> None:
    itself = ("-W", f"{HOST}:{server.port}")
    assert server.login(sign(extensions={"permit-port-forwarding": ""}), *itself).output.startswith("SSH-2.0-")
    assert server.login(sign(), *itself) == Login(255, "", "stdio forwarding failed\n", "")


@pytest.mark.needs("faketime")
@pytest.mark.parametrize(("policy", "ends"), [({}, NOT_YET_VALID), ({"backdate": 60}, accepted("in\n"))])
def test_a_server_whose_clock_is_behind_lets_a_fresh_certificate_in_that_the_policy_backdates(
    http: Client, sign: Sign, own_authority: Any, tmp_path: Path, policy: dict[str, int], ends: Login
) -> None:
    id = own_authority["id"]
    assert http.put(f"/ssh_certificate_authorities/{id}/policy", {"user": policy}).status == 200
    with sshd.running(tmp_path, behind=30) as server:
        server.trust(own_authority)
        assert server.login(sign(ssh_certificate_authority_id=id), "echo in") == ends
        assert server.login(sign(ssh_certificate_authority_id=id, valid_after=in_seconds(-60)), "true") == accepted("")
