"""Webhooks as their providers sign them, written from their documentation and without the edge's own table."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import get_args

from chalicelib.model.edges.modules.webhook_verification import WebhookProvider

PROVIDERS: tuple[WebhookProvider, ...] = get_args(WebhookProvider)
SIGNED_TIMES: tuple[WebhookProvider, ...] = ("SLACK", "STRIPE", "SVIX", "ZENDESK")
_KEY = b"0123456789abcdefghijklmn"


def secret_of(provider: WebhookProvider) -> str:
    """Return the secret that `sign` uses."""
    return f"whsec_{base64.b64encode(_KEY).decode()}" if provider == "SVIX" else _KEY.decode()


def sign(
    provider: WebhookProvider, body: bytes, now: int, *, time: bytes | None = None, key: bytes = _KEY
) -> list[tuple[str, bytes]]:
    """Return the headers of a webhook. `time` is another timestamp than that of `now`."""
    if provider in SIGNED_TIMES:
        return _sign_with_time(provider, body, now, time, key)
    match provider:
        case "BITBUCKET":
            return [("x-hub-signature", b"sha256=" + _hex(key, body))]
        case "GITHUB":
            return [("x-hub-signature-256", b"sha256=" + _hex(key, body))]
        case "GITLAB":
            return [("x-gitlab-token", key)]
        case "INTERCOM":
            return [("x-hub-signature", b"sha1=" + hmac.new(key, body, hashlib.sha1).hexdigest().encode())]
        case "PAGERDUTY":
            return [("x-pagerduty-signature", b"v1=" + _hex(b"former", body) + b",v1=" + _hex(key, body))]
    return [("x-shopify-hmac-sha256", _base64(key, body))]


def _sign_with_time(
    provider: WebhookProvider, body: bytes, now: int, time: bytes | None, key: bytes
) -> list[tuple[str, bytes]]:
    at = str(now).encode() if time is None else time
    match provider:
        case "SLACK":
            signature = b"v0=" + _hex(key, b"v0:" + at + b":" + body)
            return [("x-slack-request-timestamp", at), ("x-slack-signature", signature)]
        case "STRIPE":
            return [("stripe-signature", b"t=" + at + b",v1=" + _hex(key, at + b"." + body))]
        case "SVIX":
            signature = b"v1," + _base64(key, b"msg_1." + at + b"." + body)
            return [("svix-id", b"msg_1"), ("svix-timestamp", at), ("svix-signature", signature)]
    utc = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode() if time is None else time
    name = "x-zendesk-webhook-signature"
    return [(f"{name}-timestamp", utc), (name, _base64(key, utc + body))]


def _hex(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).hexdigest().encode()


def _base64(key: bytes, text: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
