"""The settings of the issuer, from the environment (docs/settings.md)."""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chalicelib import domains
from edge.process.settings import SettingError

_ALGORITHM = "hmac-sha256"


@dataclass(frozen=True)
class TsigKey:
    """A TSIG key, which signs updates of DNS records (RFC 8945)."""

    name: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class DnsSettings:
    """The DNS zone with the targets of aliases for challenges, and the server that updates the zone."""

    zone: str
    host: str
    port: int
    key: TsigKey


@dataclass(frozen=True)
class IssuerSettings:
    """The CA, the operator's account there, and how challenges are answered. `dns` is None without ACME_DNS_ZONE."""

    directory: str
    contact: str = ""
    eab_kid: str = ""
    eab_hmac: str = field(default="", repr=False)
    profile: str = ""
    bundle: str = ""
    http_port: int = 80
    orders_operator: bool = False
    dns: DnsSettings | None = None


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether ACME_DIRECTORY is set, so that there is an issuer."""
    return bool(environment.get("ACME_DIRECTORY", "").strip())


def from_environment(environment: Mapping[str, str] = os.environ) -> IssuerSettings:
    """Return the settings. Raises SettingError if a setting is missing or invalid."""

    def get(name: str) -> str:
        return environment.get(name, "").strip()

    if not get("ACME_DIRECTORY").startswith("https://"):
        raise SettingError("ACME_DIRECTORY must be the https URL of a CA's ACME directory.")
    if get("ACME_TERMS_AGREED") != "true":
        raise SettingError("Automatic certificates need ACME_TERMS_AGREED=true: read the terms of the CA first.")
    if get("ACME_CONTACT") and not get("ACME_CONTACT").startswith("mailto:"):
        raise SettingError("ACME_CONTACT must be a mailto URL, for example mailto:ops@example.com.")
    if bool(get("ACME_EAB_KID")) != bool(get("ACME_EAB_HMAC")):
        raise SettingError("ACME_EAB_KID and ACME_EAB_HMAC belong together: set both or neither.")
    dns = _dns(get("ACME_DNS_ZONE"), get("ACME_DNS_SERVER"), get("ACME_DNS_KEY"))
    return IssuerSettings(
        get("ACME_DIRECTORY"),
        get("ACME_CONTACT"),
        get("ACME_EAB_KID"),
        get("ACME_EAB_HMAC"),
        get("ACME_PROFILE"),
        get("ACME_CA_BUNDLE"),
        _port("ACME_HTTP_PORT", get("ACME_HTTP_PORT") or "80"),
        _orders_operator(get("ACME_OPERATOR"), get("EDGE_CERTIFICATE"), dns),
        dns,
    )


def parse_key(text: str) -> TsigKey:
    """Parse a TSIG key, name:algorithm:base64, or the path of a file that contains it. Raises SettingError."""
    if text.startswith(("/", "./")):
        try:
            text = Path(text).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise SettingError(f"ACME_DNS_KEY names a file that cannot be read ({type(error).__name__}).") from None
    name, algorithm, secret = (*text.split(":"), "", "", "")[:3]
    try:
        key = base64.b64decode(secret, validate=True)
    except binascii.Error:
        key = b""
    if not name or algorithm.lower() != _ALGORITHM or not key or text.count(":") != 2:
        raise SettingError(f"ACME_DNS_KEY must be a key of the form name:{_ALGORITHM}:base64, or the path of its file.")
    return TsigKey(name.lower(), key)


def _dns(zone: str, server: str, key: str) -> DnsSettings | None:
    if not zone and not server and not key:
        return None
    if not (zone and server and key):
        raise SettingError("ACME_DNS_ZONE, ACME_DNS_SERVER and ACME_DNS_KEY belong together: set all or none.")
    try:
        name = domains.normalize(zone)
    except ValueError as error:
        raise SettingError(f"ACME_DNS_ZONE={zone} is invalid: it {error}.") from None
    host, colon, port = server.rpartition(":")
    if not colon or not host:
        raise SettingError(f"ACME_DNS_SERVER={server} is not a server: write its host and port, as ns.example.com:53.")
    return DnsSettings(name, host.removeprefix("[").removesuffix("]"), _port("ACME_DNS_SERVER", port), parse_key(key))


def _orders_operator(text: str, certificate: str, dns: DnsSettings | None) -> bool:
    """Return whether the issuer obtains the certificate for TUNNEL_DOMAIN. Raises SettingError."""
    if text not in ("", "true", "false"):
        raise SettingError(f"ACME_OPERATOR={text} must be true or false.")
    if text == "true" and certificate:
        raise SettingError("ACME_OPERATOR=true and EDGE_CERTIFICATE exclude each other: unset one of them.")
    if text == "true" and dns is None:
        raise SettingError("ACME_OPERATOR=true needs ACME_DNS_ZONE, because the CA verifies wildcards by DNS.")
    return text == "true"


def _port(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise SettingError(f"{name}={text} is not a port: choose one from 1 to 65535.")
    return int(text)
