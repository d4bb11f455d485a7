"""`ssh-keygen` reads in a certificate what the response says of it, field by field."""

from datetime import datetime, timedelta
from typing import Any

from tests.live.ssh.conftest import Sign
from tests.live.ssh.keygen import Certificate, KeyPair
from tests.live.ssh.sshd import USER, Sshd, accepted
from tests.transports import Client, refusal

EVERYTHING: dict[str, Any] = {
    "principals": ["zoe", "adam", "deploy bot", "a,b"],
    "critical_options": {"source-address": "192.0.2.0/24,2001:db8::/32", "force-command": "/usr/bin/env  -i 'x' \"y\""},
    "extensions": {
        "permit-X11-forwarding": "",
        "permit-agent-forwarding": "",
        "permit-port-forwarding": "",
        "permit-pty": "",
        "permit-user-rc": "",
        "groups@example.com": "admin,staff (all)",
        "empty@example.com": "",
    },
    "valid_after": "2030-01-31T12:00:00Z",
    "valid_until": "2031-02-28T23:59:59Z",
}


def test_every_field_of_the_response_stands_in_the_certificate(sign: Sign, authorities: dict[str, Any]) -> None:
    answer = sign(**EVERYTHING).certificate
    read = Certificate.of(answer["certificate"])
    assert answer.items() >= EVERYTHING.items()
    assert read == Certificate.promised(answer, authorities["ed25519"], serial=read.serial)


def test_times_of_any_offset_and_fraction_stand_in_the_certificate_as_whole_seconds_of_utc(sign: Sign) -> None:
    identity = sign(valid_after="2030-01-01T00:30:00.999+02:00", valid_until="2030-06-01T00:00:00.001-11:30")
    assert (
        Certificate.of(identity.certificate["certificate"]).valid == "from 2029-12-31T22:30:00 to 2030-06-01T11:30:00"
    )


def test_what_is_not_asked_for_has_its_default_in_the_certificate(
    http: Client, authorities: dict[str, Any], key_pairs: dict[str, KeyPair]
) -> None:
    request = {"ssh_certificate_authority_id": authorities["ed25519"]["id"], "public_key": key_pairs["ed25519"].public}
    answer = http.create("/ssh_user_certificates", request)
    read = Certificate.of(answer["certificate"])
    created = datetime.fromisoformat(answer["created_at"]).replace(tzinfo=None)
    assert read.principals == []
    assert read.critical_options == {}
    assert read.extensions == {"permit-pty": "", "permit-user-rc": ""}
    assert read.valid == f"from {created.isoformat()} to {(created + timedelta(hours=24)).isoformat()}"
    assert read == Certificate.promised(answer, authorities["ed25519"], serial=read.serial)


def test_the_largest_certificate_that_can_be_asked_for_still_lets_in(
    server: Sshd, sign: Sign, authorities: dict[str, Any]
) -> None:
    identity = sign(
        principals=[*(f"{number:0255}" for number in range(255)), USER],
        critical_options={
            "force-command": f"echo in #{'x' * (16 * 1024 - 9)}",
            "source-address": f"127.0.0.1{',192.0.2.0/24' * 314}",
        },
        extensions={f"{'x' * 240}{number:03}@example.com": "y" * 1024 for number in range(32)},
    )
    read = Certificate.of(identity.certificate["certificate"])
    assert read == Certificate.promised(identity.certificate, authorities["ed25519"], serial=read.serial)
    assert server.login(identity, "echo asked") == accepted("in\n")


def test_extensions_with_values_that_the_server_cannot_read_are_not_signed(
    http: Client, authorities: dict[str, Any], key_pairs: dict[str, KeyPair]
) -> None:
    request = {"ssh_certificate_authority_id": authorities["ed25519"]["id"], "public_key": key_pairs["ed25519"].public}
    extensions = {"groups@example.com": "staff", "permit-pty": "yes", "permit-X11-forwarding": "1"}
    answer = http.post("/ssh_user_certificates", request | {"extensions": extensions})
    rule = "must have an empty string for permit-X11-forwarding and permit-pty: OpenSSH accepts no value there"
    assert answer.status == 400
    assert answer.json == refusal(answer, extensions=rule)
