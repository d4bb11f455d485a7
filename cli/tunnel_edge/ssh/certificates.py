"""Finds, obtains and stores the SSH user certificate of a profile, in files or in the SSH agent."""

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunnel_edge.errors import FAILED, CommandError
from tunnel_edge.identity import files, profiles
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.ssh import agent, keys, wire
from tunnel_edge.ssh.wire import Certificate

if TYPE_CHECKING:
    from tunnel_edge.identity.session import Session


@dataclass(frozen=True)
class Request:
    """The content of the certificate to request. If `lifetime` (seconds) is 0, the authority chooses the lifetime."""

    authority: str
    principals: tuple[str, ...]
    lifetime: int
    confirm: bool
    uses_files: bool


def comment(profile: Profile) -> str:
    """Return the comment that a profile's certificates have in the agent."""
    return f"te:{profile.name}"


def key_file(profile: Profile) -> Path:
    """Return the path of the private key. The path of the certificate also has `-cert.pub` at the end."""
    return files.state_folder() / "ssh" / f"{profile.name}-{profile.authority}"


def certificate_file(profile: Profile) -> Path:
    """Return the path of the certificate."""
    key = key_file(profile)
    return key.with_name(f"{key.name}-cert.pub")


def find(profile: Profile) -> Certificate | None:
    """Return a profile's valid certificate from the agent or its files, or None.

    If there are several, return the one that expires last.
    """
    certificates = _list_in_files(profile) if profile.uses_files else _list_in_agent(profile)
    now = time.time()
    valid = [certificate for certificate in certificates if certificate and certificate.is_valid(now)]
    return max(valid, key=lambda certificate: certificate.valid_before, default=None)


def obtain(session: "Session", request: Request, key: Any = None) -> Certificate:
    """Obtain a certificate, and replace the stored certificate and key. Store the request in the profile, for renewals.

    If no key is given, create a new key.
    """
    key = key or keys.generate()
    line = _sign(session, request, keys.public_line(key))
    certificate = Certificate.parse(base64.b64decode(line.split()[1]))
    if certificate is None:
        raise CommandError(
            "The service sent a certificate of another key type: te needs one of an ed25519 key.", FAILED
        )
    recorded = {**vars(request), "authority_key": signer(certificate)}
    before = profiles.load(session.profile.name)
    profile = replace(before or session.profile, **recorded)
    _store(profile, key, certificate, line)
    if profile != before:
        profiles.save(profile)
    return certificate


def load_key(profile: Profile) -> Any:
    """Return the private key in the file of a profile. Return None if there is no readable key.

    A renewal keeps the key, so that `ssh` never reads a new key with the old certificate.
    """
    return keys.load(files.read_private(key_file(profile)) or b"")


def signer(certificate: Certificate) -> str:
    """Return, in base64, the public key of the authority that signed a certificate."""
    return base64.b64encode(certificate.authority_key).decode()


def _list_in_agent(profile: Profile) -> Sequence[Certificate]:
    """Return the certificates in the agent that belong to a profile, and that its authority has signed."""
    with agent.open_agent() as ssh_agent:
        return [
            certificate
            for certificate in ssh_agent.certificates(comment(profile))
            if signer(certificate) == profile.authority_key
        ]


def _list_in_files(profile: Profile) -> Sequence[Certificate]:
    """Return the certificate in a profile's file, if it belongs to the private key in the profile's other file."""
    certificate = _read(certificate_file(profile))
    key = wire.public_key(files.read_private(key_file(profile)) or b"")
    return [certificate] if certificate and certificate.public_key == key else []


def _read(file: Path) -> Certificate | None:
    """Return the certificate in a file. Return None if there is no readable certificate."""
    try:
        return Certificate.parse(base64.b64decode((files.read_private(file) or b"").split()[1]))
    except (IndexError, ValueError):
        return None


def _sign(session: "Session", request: Request, public_key: str) -> str:
    """Request a certificate, with the session's API key or a pipeline's token. Return it in OpenSSH's format."""
    body: dict[str, Any] = {
        "ssh_certificate_authority_id": request.authority,
        "public_key": public_key,
        "principals": [*request.principals],
    }
    if request.lifetime:
        end = time.gmtime(time.time() + request.lifetime)
        body["valid_until"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", end)
    answer = session.sign(body) if session.sign else session.client.post("/ssh_user_certificates", body)
    return str(answer["certificate"])


def _store(profile: Profile, key: Any, certificate: Certificate, line: str) -> None:
    """Replace the stored key and certificate."""
    if profile.uses_files:
        if wire.public_key(files.read_private(key_file(profile)) or b"") != certificate.public_key:
            # remove the old certificate first, so that `ssh` never reads it together with the new key
            certificate_file(profile).unlink(missing_ok=True)
            files.write_private(key_file(profile), keys.encode(key))
        files.write_private(certificate_file(profile), f"{line}\n".encode())
        return
    lifetime = max(1, certificate.valid_before - int(time.time()))
    with agent.open_agent() as ssh_agent:
        predecessors = [
            predecessor
            for predecessor in ssh_agent.certificates(comment(profile))
            if signer(predecessor) == profile.authority_key
        ]
        ssh_agent.add(certificate, key.private_bytes_raw(), comment(profile), lifetime, confirm=profile.confirm)
        for predecessor in predecessors:
            ssh_agent.remove(predecessor)
