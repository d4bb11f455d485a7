"""Obtains the key for a gateway: a certificate in memory, this machine's SSH credential, or keys of the user.

Only the functions that need asyncssh import it, so that the first request to the service does not wait for this import.
"""

import json
import os
import random
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tunnel_edge.api.client import Client
from tunnel_edge.api.errors import ApiError
from tunnel_edge.errors import CONFLICT, NOT_FOUND, USAGE, CommandError
from tunnel_edge.identity import files
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.session import Session
from tunnel_edge.ssh import keys
from tunnel_edge.tunnels.gateways import Service, SignIn
from tunnel_edge.tunnels.material import Material
from tunnel_edge.tunnels.requested import RequestedTunnel

AGENT = "agent"  # the value of --identity for the keys of the agent

# The principal of certificates. No machine should have a user with this name: a certificate could be used to log in.
_PRINCIPAL = "tunnel-edge"
_USER = "te"  # the SSH user name for the key of an SSH credential: the gateway accepts every user name for such a key
_LIFETIME = 24 * 3600  # lifetime in seconds that is requested for a certificate. A policy can permit less
# A certificate is renewed when a tenth of its lifetime is left, but at most 60 and at least 2 seconds before its end.
_MARGIN, _MIN_MARGIN = 60.0, 2.0
_MAX_PORTS = 100  # ports in a credential's ACL if the command names none. An ACL has at most 1,000 rules
_MAX_SECONDS = re.compile(r"at most (\d+) seconds")
# the beginnings of asyncssh's errors for a missing or wrong passphrase
_ENCRYPTED = ("Passphrase must be specified", "Unable to decrypt")
_TRIES = 3  # attempts to change the ACL. An attempt fails if another process changes the ACL at the same time


@dataclass(frozen=True)
class Certificates:
    """Requests certificates from the profile's authority. Key and certificates exist in memory only."""

    client: Client
    profile: Profile
    requested: RequestedTunnel
    domain: str

    def request(self, key: Any, lifetime: int = _LIFETIME) -> Material:
        """Request a certificate for a key, with the longest lifetime that the authority's policy permits."""
        try:
            answer = self.client.post("/ssh_user_certificates", self._body(key, lifetime))
        except ApiError as error:
            details = error.body.get("details") or {}
            max_seconds = _MAX_SECONDS.search(str(details.get("valid_until", "")))
            if max_seconds and int(max_seconds[1]) < lifetime:
                return self.request(key, int(max_seconds[1]))
            if "extensions.bind@tunnel-edge" in details and self._needs_port:
                sentence = "The policy of the SSH authority restricts ports: name a port with --port."
                raise CommandError(sentence, USAGE) from error
            raise
        ends_at = datetime.fromisoformat(answer["valid_until"]).timestamp()
        margin = max(_MIN_MARGIN, min(_MARGIN, (ends_at - time.time()) / 10))
        return Material(self._principal, keys.encode(key), answer["certificate"], ends_at - margin)

    @property
    def _principal(self) -> str:
        return self.profile.principals[0] if self.profile.principals else _PRINCIPAL

    @property
    def _needs_port(self) -> bool:
        return self.requested.proto == "tcp" and not (self.requested.port or self.requested.labels)

    def _body(self, key: Any, lifetime: int) -> Mapping[str, Any]:
        extensions = {"permit-port-forwarding": ""}
        if not self._needs_port:
            extensions["bind@tunnel-edge"] = ",".join(self.requested.rules(self.domain, ()))
        end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=lifetime)
        return {
            "ssh_certificate_authority_id": self.profile.authority,
            "public_key": keys.public_line(key),
            "principals": [self._principal],
            "extensions": extensions,
            "valid_until": end.isoformat().replace("+00:00", "Z"),
            "description": "te: a tunnel",
        }


@dataclass(frozen=True)
class Credentials:
    """The SSH credential of a profile on this machine. Its ACL has the rules that earlier commands needed."""

    client: Client
    profile: Profile
    rules: Sequence[str]

    def load(self, new_key: Any) -> Material:
        """Read the stored key, or store `new_key` and its credential. Add missing `rules` to the credential's ACL."""
        key_file = files.state_folder() / "ssh" / f"{self.profile.name}-tunnels"
        key, id = keys.load(files.read_private(key_file) or b""), _read_id(key_file)
        if key is None or not id or not self._permit(id):
            key = new_key
            self._create(key, key_file)
        return Material(_USER, keys.encode(key))

    def _create(self, key: Any, key_file: Path) -> None:
        body = {
            "public_key": keys.public_line(key),
            "acl": list(dict.fromkeys(self.rules)),
            "description": "te: tunnels of one machine",
        }
        answer = self.client.post("/ssh_credentials", body)
        files.write_private(key_file, keys.encode(key))
        files.write_private(_id_file(key_file), json.dumps({"id": answer["id"]}).encode())

    def _permit(self, id: str) -> bool:
        """Add missing rules to the ACL of a credential. Return False if the credential does not exist any more."""
        for retries in reversed(range(_TRIES)):
            try:
                answer = self.client.send("GET", f"/ssh_credentials/{id}")
                acl = answer.json["acl"]
                missing = [rule for rule in dict.fromkeys(self.rules) if rule not in acl]
                if acl and missing:  # an empty ACL permits everything, so adding rules to it would restrict it
                    headers = {"If-Match": answer.headers.get("etag", "*")}
                    self.client.send("PATCH", f"/ssh_credentials/{id}", {"acl": [*acl, *missing]}, headers=headers)
            except ApiError as error:
                if error.code == NOT_FOUND:
                    return False
                if error.code != CONFLICT or not retries:
                    raise
            else:
                return True
        raise AssertionError


@dataclass
class Identity:
    """A private key from a file of the user, maybe with a certificate, or the keys of the SSH agent."""

    keys: tuple[Any, ...]
    username: str = _USER

    def current(self) -> SignIn:
        return SignIn(self.username, self.keys)


class PassphraseNeeded(Exception):
    """A private key has a passphrase, and no passphrase or a wrong one was given."""


def read_identity(file: str, passphrase: str | None = None) -> Identity:
    """Return the key in a file, with the certificate in FILE-cert.pub if it exists.

    Raises PassphraseNeeded, CommandError.
    """
    import asyncssh

    certificate = Path(f"{file}-cert.pub")
    principals: list[str] = []
    try:
        pairs = tuple(asyncssh.load_keypairs([file], passphrase))
        if certificate.exists():
            principals = getattr(asyncssh.read_certificate(certificate), "principals", None) or []
    except (OSError, ValueError) as error:
        if isinstance(error, asyncssh.KeyEncryptionError) or str(error).startswith(_ENCRYPTED):
            raise PassphraseNeeded from None
        raise CommandError(f"{file} is not a private key that can be read: {error}", USAGE) from error
    return Identity(pairs, principals[0] if principals else _USER)


def agent_keys() -> Identity:
    """Return an Identity that uses the keys of the SSH agent. Raises CommandError if there is no agent."""
    if not os.environ.get("SSH_AUTH_SOCK") and os.name == "posix":
        raise CommandError("There is no SSH agent: SSH_AUTH_SOCK is not set.", USAGE)
    return Identity(())


def obtain(session: Session, requested: RequestedTunnel, service: Service, key: Any) -> Material:
    """Return a key with a certificate, if the profile has an authority, or else the key of this machine's credential.

    `key` is the private key for a new certificate or credential. Raises CommandError.
    """
    client, profile = session.client, session.profile
    if profile.authority:
        return Certificates(client, profile, requested, service.domain).request(key)
    return Credentials(client, profile, requested.rules(service.domain, _sample(service.tcp_ports))).load(key)


def _sample(ports: Sequence[int]) -> Sequence[int]:
    """Return a sample of at most _MAX_PORTS ports for an ACL.

    A machine always gets the same sample, so that later commands do not add ports to the ACL.
    """
    if len(ports) <= _MAX_PORTS:
        return ports
    return random.Random(socket.gethostname()).sample(ports, _MAX_PORTS)


def _read_id(key_file: Path) -> str:
    """Return the stored id of the credential. Return "" if there is none."""
    try:
        return str(json.loads(files.read_private(_id_file(key_file)) or b"{}")["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def _id_file(key_file: Path) -> Path:
    return key_file.with_name(f"{key_file.name}.json")
