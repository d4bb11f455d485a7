"""Values of the document's own formats, for Schemathesis to draw from: JSON Schema has no words for what they are."""

import base64
import json
from typing import Any

import schemathesis
from hypothesis import strategies
from hypothesis.strategies import SearchStrategy

from chalicelib.model.accounts import scopes
from tests import openssl

_ED25519 = b"\0\0\0\x0bssh-ed25519\0\0\0 "
_POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"inbound": []},
    {"inbound": [{"name": "no", "expressions": ["true"], "actions": [{"type": "deny"}]}], "outbound": []},
    {"outbound": [{"actions": [{"type": "log", "config": {"metadata": {"a": 1}}}]}]},
)
_RULES = ("*", "bind:example.com", "bind:*.example.com", "bind:h.example:22", "bind:[::1]:22", "bind:a=b", "bind:*=*")
_PATTERNS = ("", "(?i)bot", "^curl/[0-9.]+$", "\\pL+", "[^ -~]", "(a|b)*c{2,3}")
_NETWORKS = ("10.0.0.0/8", "192.0.2.1", "2001:db8::/32,::1", "0.0.0.0/0,10.1.2.3")


def register() -> None:
    """Tell Schemathesis of all of them."""
    leaf, authority = openssl.issue(), openssl.issue("/CN=ca", extensions=openssl.CA)
    for name, values in {
        "acl-rule": strategies.sampled_from(_RULES),
        "bind-rule": strategies.sampled_from(_RULES),
        "authorized-key": _keys(),
        "ca-certificate": strategies.just(authority.certificate),
        "certificate-chain": strategies.just(leaf.certificate),
        "new-name": strategies.from_regex("[A-Za-z0-9]{1,40}", fullmatch=True),
        "network": strategies.sampled_from(("192.0.2.0/24", "2001:db8::/32")),
        "networks": strategies.sampled_from(_NETWORKS),
        "private-key": strategies.just(leaf.key),
        "re2": strategies.sampled_from(_PATTERNS),
        "scope": strategies.sampled_from(scopes.list_scopes()),
        "ssh-public-key": _keys(),
        "traffic-policy": strategies.sampled_from(_POLICIES).map(json.dumps),
    }.items():
        schemathesis.openapi.format(name, values)


def _keys() -> SearchStrategy[str]:
    """Return a strategy for new public keys, since a credential's is unique. Any 32 bytes are an Ed25519 key.

    Those that everybody could sign for are refused: a byte in the middle keeps away from them.
    """
    points = strategies.binary(min_size=32, max_size=32).map(lambda point: point[:15] + b"*" + point[16:])
    return points.map(lambda point: f"ssh-ed25519 {base64.b64encode(_ED25519 + point).decode()}")
