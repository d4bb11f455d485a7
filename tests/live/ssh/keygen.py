"""Key pairs that `ssh-keygen` makes, and what it reads in keys and certificates: it shares no code with the service."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.needs import need

_FINGERPRINT = re.compile(r"(?P<bits>\d+) (?P<sha256>SHA256:\S+) (?P<comment>.*) \((?P<kind>\S+)\)\n")
_DEEPER = " " * 16
_SIGNATURES = {"ssh-rsa": "rsa-sha2-512"}  # what differs from the name of the key's own algorithm
_UNKNOWN_OPTION = re.compile(r"UNKNOWN OPTION: ([0-9a-f]+) \(len \d+\)")


@dataclass(frozen=True)
class KeyPair:
    """The file of a private key; the public one lies beside it."""

    private: Path

    @property
    def public(self) -> str:
        return self.private.with_suffix(".pub").read_text()


@dataclass(frozen=True)
class Fingerprint:
    """The output of `ssh-keygen -l` for a public key or a certificate."""

    bits: int
    sha256: str
    comment: str
    kind: str

    @classmethod
    def of(cls, line: str) -> Self:
        match = _FINGERPRINT.fullmatch(_run("-l", "-f", "-", stdin=line))
        assert match, line
        return cls(int(match["bits"]), match["sha256"], match["comment"], match["kind"])


@dataclass(frozen=True)
class Certificate:
    """The output of `ssh-keygen -L` for a certificate, times in UTC."""

    type: str
    public_key: str
    signing_ca: str
    key_id: str
    serial: int
    valid: str
    principals: list[str]
    critical_options: dict[str, str]
    extensions: dict[str, str]

    @classmethod
    def of(cls, line: str) -> Self:
        paragraphs = _paragraphs(_run("-L", "-f", "-", stdin=line))
        return cls(
            type=paragraphs["Type"][0],
            public_key=paragraphs["Public key"][0],
            signing_ca=paragraphs["Signing CA"][0],
            key_id=paragraphs["Key ID"][0].strip('"'),
            serial=int(paragraphs["Serial"][0]),
            valid=paragraphs["Valid"][0],
            principals=paragraphs["Principals"],
            critical_options=dict(_options(paragraphs["Critical Options"])),
            extensions=dict(_options(paragraphs["Extensions"])),
        )

    @classmethod
    def promised(cls, response: dict[str, Any], authority: dict[str, Any], *, serial: int) -> Self:
        """Return the certificate that the service's responses describe; they do not show its serial."""
        algorithm, key = response["public_key"].split()[0], Fingerprint.of(response["public_key"])
        signed_by, ca = authority["public_key"].split()[0], Fingerprint.of(authority["public_key"])
        return cls(
            type=f"{algorithm}-cert-v01@openssh.com user certificate",
            public_key=f"{key.kind}-CERT {key.sha256}",
            signing_ca=f"{ca.kind} {ca.sha256} (using {_SIGNATURES.get(signed_by, signed_by)})",
            key_id=response["id"],
            serial=serial,
            valid=f"from {response['valid_after']} to {response['valid_until']}".replace("Z", ""),
            principals=response["principals"],
            critical_options=response["critical_options"],
            extensions=response["extensions"],
        )


def version() -> tuple[int, int]:
    """Return the version of the installed OpenSSH, for example (9, 2)."""
    need("ssh")
    output = subprocess.run(["ssh", "-V"], check=True, capture_output=True, text=True).stderr
    match = re.match(r"OpenSSH_(\d+)\.(\d+)", output)
    assert match, output
    return int(match[1]), int(match[2])


def generate(private: Path, kind: str, bits: int) -> KeyPair:
    """Make a key pair without a passphrase, with the file's name as its comment."""
    _run("-q", "-t", kind, "-b", str(bits), "-N", "", "-C", private.name, "-f", str(private))
    return KeyPair(private)


def _run(*arguments: str, stdin: str = "") -> str:
    command = ["ssh-keygen", *arguments]
    environment = {**os.environ, "TZ": "UTC"}
    need("ssh")
    result = subprocess.run(command, input=stdin.encode(), env=environment, check=True, capture_output=True, timeout=60)
    return result.stdout.decode()


def _paragraphs(text: str) -> dict[str, list[str]]:
    """Return the values of each heading, which stand after it or on the deeper lines below it."""
    paragraphs: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines()[1:]:  # the first names the file
        if line.startswith(_DEEPER):
            paragraphs[heading].append(line.removeprefix(_DEEPER))
        else:
            heading, _, value = line.strip().partition(":")
            paragraphs[heading] = [value.strip()] if value.strip() not in ("", "(none)") else []
    return paragraphs


def _options(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values; `ssh-keygen` shows the packed values of options that it does not know in hex."""
    for line in lines:
        name, _, value = line.partition(" ")
        unknown = _UNKNOWN_OPTION.fullmatch(value)
        yield name, bytes.fromhex(unknown[1])[4:].decode() if unknown else value.removeprefix("UNKNOWN FLAG OPTION")
