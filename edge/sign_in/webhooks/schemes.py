"""The signature schemes of ten webhook providers, and the verification of a request. This file does no I/O.

A header with a signature, timestamp or id must occur exactly once. Otherwise the upstream could use an occurrence that
was not verified.
"""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from chalicelib.model.edges.modules.webhook_verification import WebhookProvider, svix_key

Headers: TypeAlias = Sequence[tuple[str, bytes]]  # (name in lower case, value) of each header
MAX_AGE = 300  # maximum difference between a signed timestamp and now, in seconds
_MAX_SIGNATURES = 16  # maximum signatures in a header: while a secret is replaced, a provider sends two
_SECONDS = re.compile(rb"[0-9]{1,12}")
_UTC = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_ID = re.compile(rb"[A-Za-z0-9_-]{1,255}")  # without a dot: in the signed text, a dot ends the id


@dataclass(frozen=True)
class Scheme:
    """The way in which a provider signs its webhooks.

    The header `header` contains one or more signatures. Each begins with `prefix`, and `separator` is between them. If
    `algorithm` is "", the header contains the secret itself instead of signatures.

    The signed text is `lead` followed by the body. In `lead`, %t is replaced by the timestamp, and %i by the id of the
    message. `timestamp` and `id` are the names of the headers with these values. If `timestamp` is "t=", the timestamp
    follows "t=" in the header with the signatures.
    """

    header: str
    prefix: bytes = b""
    separator: bytes = b""
    algorithm: str = "sha256"
    is_base64: bool = False
    lead: bytes = b""
    timestamp: str = ""
    id: str = ""


_SVIX = Scheme("svix-signature", b"v1,", b" ", "sha256", True, b"%i.%t.", "svix-timestamp", "svix-id")
SCHEMES: Mapping[WebhookProvider, Scheme] = {
    "BITBUCKET": Scheme("x-hub-signature", b"sha256="),
    "GITHUB": Scheme("x-hub-signature-256", b"sha256="),
    "GITLAB": Scheme("x-gitlab-token", algorithm=""),
    "INTERCOM": Scheme("x-hub-signature", b"sha1=", algorithm="sha1"),
    "PAGERDUTY": Scheme("x-pagerduty-signature", b"v1=", b","),
    "SHOPIFY": Scheme("x-shopify-hmac-sha256", is_base64=True),
    "SLACK": Scheme("x-slack-signature", b"v0=", lead=b"v0:%t:", timestamp="x-slack-request-timestamp"),
    "STRIPE": Scheme("stripe-signature", b"v1=", b",", lead=b"%t.", timestamp="t="),
    "SVIX": _SVIX,
    "ZENDESK": Scheme(
        *("x-zendesk-webhook-signature", b"", b"", "sha256", True, b"%t"),
        timestamp="x-zendesk-webhook-signature-timestamp",
    ),
}
# Standard Webhooks is the scheme of Svix with neutral header names. Svix can send the headers of both schemes.
_STANDARD = replace(_SVIX, header="webhook-signature", timestamp="webhook-timestamp", id="webhook-id")


def verify(provider: WebhookProvider, secret: str, headers: Headers, body: bytes, now: float) -> bool:
    """Return whether a provider signed a request with a secret.

    A signed timestamp may differ from now by at most MAX_AGE. `body` has the bytes as they were sent, which may be
    compressed (Content-Encoding).
    """
    scheme = SCHEMES[provider]
    if provider == "SVIX" and not _values(headers, scheme.header):
        scheme = _STANDARD
    signature = _read_single(headers, scheme.header)
    if not signature or not secret:
        return False
    if not scheme.algorithm:
        return hmac.compare_digest(signature, secret.encode())
    lead = _lead(scheme, headers, signature, now)
    if lead is None:
        return False
    key = svix_key(secret) if provider == "SVIX" else secret.encode()
    return _is_signed(scheme, signature, key, lead + body)


def _is_signed(scheme: Scheme, header: bytes, key: bytes, text: bytes) -> bool:
    digest = hmac.new(key, text, scheme.algorithm).digest() if key else b""
    expected = base64.b64encode(digest) if scheme.is_base64 else digest.hex().encode()
    signatures = header.split(scheme.separator) if scheme.separator else [header]
    if not expected or len(signatures) > _MAX_SIGNATURES:
        return False
    return any(hmac.compare_digest(signature, scheme.prefix + expected) for signature in signatures)


def _lead(scheme: Scheme, headers: Headers, signature: bytes, now: float) -> bytes | None:
    """Return the part of the signed text before the body.

    Return None if the timestamp differs too much from now, or a header is malformed.
    """
    lead = scheme.lead
    if scheme.id:
        id = _read_single(headers, scheme.id)
        if not _ID.fullmatch(id):
            return None
        lead = lead.replace(b"%i", id)
    if scheme.timestamp:
        timestamp = _field(signature, scheme) if scheme.timestamp == "t=" else _read_single(headers, scheme.timestamp)
        at = _seconds(timestamp)
        if at is None or abs(now - at) > MAX_AGE:
            return None
        lead = lead.replace(b"%t", timestamp)
    return lead


def _field(header: bytes, scheme: Scheme) -> bytes:
    """Return the timestamp in the signature header, or b"" if the header does not have exactly one."""
    name = scheme.timestamp.encode()
    values = [field.removeprefix(name) for field in header.split(scheme.separator) if field.startswith(name)]
    return values[0] if len(values) == 1 else b""


def _seconds(text: bytes) -> float | None:
    """Return a timestamp, in seconds or in RFC 3339, as Unix time. Return None if it is malformed."""
    if _SECONDS.fullmatch(text):
        return int(text)
    try:
        return datetime.fromisoformat(text.decode()).timestamp() if _UTC.fullmatch(text) else None
    except ValueError:
        return None


def _read_single(headers: Headers, name: str) -> bytes:
    """Return the value of a header, or b"" if the header does not occur exactly once."""
    values = _values(headers, name)
    return values[0] if len(values) == 1 else b""


def _values(headers: Headers, name: str) -> list[bytes]:
    return [value for key, value in headers if key == name]
