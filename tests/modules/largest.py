"""The largest value of each module, for tests of sizes and of what the edge's engine bears.

It is made of the module's sample and the limits of its fields. WRITTEN has the modules for which that is too small.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from chalicelib import ids, modules
from chalicelib.http.module import Module
from chalicelib.model.base.kinds import Kind
from chalicelib.model.edges.enforced import enforced_modules
from infra.build.openapi import budgets, largest
from infra.build.openapi.largest import CHARACTERS, Largest
from infra.build.openapi.schemas import Words
from tests.modules.samples import SAMPLES

_SIGNS = ("\0", '"', "x")  # the most characters of a response first
_PATTERNS = [f"{number:064}" for number in range(66)] + ["b" * 48]  # words, since others cost too much
_HEADERS = {
    "add": {f"X-{number}-{'n' * 60}": "v" * 200 for number in range(10)},
    "remove": [f"X-{number}-{'r' * 60}" for number in range(10)],
}
_PROVIDER = {
    "email_addresses": [f"{number:04}@example.com" for number in range(758)],
    **dict.fromkeys(("client_id", "client_secret"), "\0" * 14),
}
WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "basic_auth": {
        "credentials": [{"username": str(number) + '"' * 127, "password": "p" * 128} for number in range(10)]
    },
    "ip_restriction": {"ip_policy_ids": [ids.new("ipp") for _ in range(10)]},
    "mutual_tls": {"certificate_authority_ids": [ids.new("ca") for _ in range(10)]},
    "oauth": {"provider": {"github": _PROVIDER}},
    "request_headers": _HEADERS,
    "response_headers": _HEADERS,
    "tls_termination": {"terminate_at": "edge"},
    "traffic_policy": {"value": json.dumps({"inbound": [{"name": '"' * 65_490, "actions": [{"type": "deny"}]}]})},
    "user_agent_filter": {"allow": _PATTERNS, "deny": _PATTERNS},
    "webhook_verification": {"provider": "GITHUB", "secret": '"' * 255},
}


def make_compatible(kind: Kind) -> dict[str, dict[str, Any]]:
    """Return the largest values of the modules that an item of a kind can have together, by name."""
    by_name = {module.name: module for module in modules.of(kind)}
    sizes = {name: budgets.response_size(module) for name, module in by_name.items()}
    declared = {module.name: module for module in enforced_modules.EVERY}
    return {name: make(by_name[name]) for name in budgets.keep_compatible(sizes, declared)}


def make(module: Module) -> dict[str, Any]:
    """Return the request with the largest value of a module."""
    value: dict[str, Any] = _enlarge(SAMPLES[module.path][0].request, *largest.of(module.shape, CHARACTERS))
    return {**value, "enabled": True, **WRITTEN.get(module.name, {})}


def _enlarge(value: Any, words: Words, sizes: Largest) -> Any:
    words = sizes.resolve(words)
    if "enum" in words:
        return max(words["enum"], key=len)
    match value:
        case bool():
            return value
        case int() | float():
            return words.get("maximum", value)
        case str() if "maxLength" in words and "format" not in words:
            texts = (sign * words["maxLength"] for sign in _SIGNS)
            return next((text for text in texts if re.search(words.get("pattern", ""), text)), value)
        case dict():
            fields = words.get("properties", {})
            return {name: _enlarge(child, fields.get(name, {}), sizes) for name, child in value.items()}
    return value
