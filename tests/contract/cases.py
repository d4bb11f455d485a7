"""Requests of one step, and what each is answered through every transport that is not named in differences.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.http import auth
from chalicelib.http.messages import MAX_BYTES
from tests.contract.answers import (
    MALFORMED,
    NO_ROUTE,
    NOT_FOUND,
    TOO_LARGE,
    UNAUTHENTICATED,
    UNSUPPORTED_TYPE,
    UNSUPPORTED_VERSION,
    Accepted,
    Bodiless,
    Refused,
    invalid,
    method_not_allowed,
)
from tests.transports import Answer, Client

LIMIT = "must be a whole number from 1 to 100"
KNOWN = "is not accepted here; accepted:"
UNKNOWN_TOKEN = "2NeverAKeyOfThisServiceXYZ0_0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Case:
    name: str
    expected: Refused | Accepted | Bodiless
    method: str = "GET"
    path: str = "/api_keys"
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    version: str = auth.VERSIONS[0]

    def ask(self, client: Client) -> Answer:
        return client.with_version(self.version).send(self.method, self.path, self.body, **self.headers)


def _post(name: str, expected: Refused, body: Any, **headers: str) -> Case:
    return Case(name, expected, "POST", body=body, headers=headers)


def _other_method(method: str, path: str, methods: str) -> Case:
    answer = Bodiless(405, {"allow": methods}) if method == "HEAD" else method_not_allowed(methods)
    return Case(f"{method} {path}", answer, method, path)


UNKNOWN_PATHS = [
    Case("a word that is no path", NO_ROUTE, path="/nope"),
    Case("a level too deep", NO_ROUTE, path="/api_keys/a/b"),
    Case("a level too high", NO_ROUTE, path="/edges"),
    Case("other letters", NO_ROUTE, path="/API_KEYS"),
    Case("two dots within", NO_ROUTE, path="/edges/../api_keys"),
    Case("a creation at no path", NO_ROUTE, "POST", "/nope", {}),
    Case("a preflight at no path", NO_ROUTE, "OPTIONS", "/nope"),
]

OTHER_METHODS = [
    _other_method("PUT", "/api_keys", "GET, POST"),
    _other_method("PATCH", "/api_keys", "GET, POST"),
    _other_method("DELETE", "/api_keys", "GET, POST"),
    _other_method("HEAD", "/api_keys", "GET, POST"),
    _other_method("OPTIONS", "/api_keys", "GET, POST"),
    _other_method("POST", "/api_keys/ak_1", "DELETE, GET, PATCH"),
    _other_method("HEAD", "/api_keys/ak_1", "DELETE, GET, PATCH"),
    _other_method("POST", "/edges/tls/edgtls_1/backend", "DELETE, GET, PUT"),
    _other_method("POST", "/", "GET"),
]

BAD_TOKENS = [
    Case("no token, nor a version, nor JSON", UNAUTHENTICATED, "POST", body=b"{", version=""),
    *(
        Case(name, UNAUTHENTICATED, headers={"Authorization": authorization})
        for name, authorization in {
            "another scheme": "Basic dXNlcjpwYXNzd29yZDEyMw==",
            "half a token": f"Bearer {UNKNOWN_TOKEN[:28]}",
            "an unknown token": f"Bearer {UNKNOWN_TOKEN}",
        }.items()
    ),
]

VERSIONS = [
    Case("version 2", Accepted(), version="2"),
    Case("version 0", Accepted(), version="0"),
    Case("a version with spaces around it", Accepted(), version=" 2 "),
    Case("no version, nor JSON", UNSUPPORTED_VERSION, "POST", body=b"{", version=""),
    Case("version 1", UNSUPPORTED_VERSION, version="1"),
    Case("version 2.0", UNSUPPORTED_VERSION, version="2.0"),
    Case("two versions", UNSUPPORTED_VERSION, version="2,0"),
    Case("a version in words", UNSUPPORTED_VERSION, version="two"),
]

BAD_BODIES = [
    _post("half an object", MALFORMED, b'{"description": '),
    _post("an array", MALFORMED, b"[]"),
    _post("null", MALFORMED, b"null"),
    _post("a space", MALFORMED, b" "),
    _post("not a number", MALFORMED, b'{"metadata": NaN}'),
    _post("a key named twice", MALFORMED, b'{"description": "a", "description": "b"}'),
    _post("text that is not UTF-8", MALFORMED, b'{"description": "\xff"}'),
    _post("another media type, nor JSON", UNSUPPORTED_TYPE, b"{", Content_Type="text/plain"),
    _post("no media type", UNSUPPORTED_TYPE, {}, Content_Type=""),
    _post("a form", UNSUPPORTED_TYPE, b"a=b", Content_Type="application/x-www-form-urlencoded"),
    _post("one byte too many", TOO_LARGE, b"{}".ljust(MAX_BYTES + 1)),
    _post("a megabyte", TOO_LARGE, b"{}".ljust(1024 * 1024)),
]

BAD_FIELDS = [
    _post(
        "fields of a key",
        invalid(
            description="must be a string",
            metadata="must be a string",
            x=f"{KNOWN} description, metadata, owner_id, expires_at, scopes, allowed_networks, limits",
        ),
        {"description": 1, "metadata": [], "x": None},
    ),
    _post(
        "bytes, not characters", invalid(description="must be at most 255 bytes of UTF-8"), {"description": "é" * 128}
    ),
    Case(
        "fields deep in a module",
        invalid(
            **{
                "allow.1": "must be a string",
                "deny": "must be an array",
                "enabled": "must be true or false",
                "id": "must be the id in the path, or absent",
            }
        ),
        "PUT",
        f"/edges/https/edghts_{'0' * 27}/routes/edghtsrt_{'0' * 27}/user_agent_filter",
        {"enabled": "yes", "allow": ["ok", 1], "deny": {}, "id": "x"},
    ),
]

QUERIES = [
    Case("no query behind the question mark", Accepted(), path="/api_keys?"),
    Case("a percent-encoded query", Accepted(), path="/api_keys?%6Cimit=%31"),
    Case(
        "an unknown parameter",
        invalid(page=f"{KNOWN} before_id, limit, owner_id, beyond_rules"),
        path="/api_keys?page=2",
    ),
    Case("a parameter given twice", invalid(limit="must be sent only once"), path="/api_keys?limit=1&limit=1"),
    Case("a parameter without a value", invalid(limit=LIMIT), path="/api_keys?limit="),
    Case(
        "an unknown parameter without a value",
        invalid(x=f"{KNOWN} before_id, limit, owner_id, beyond_rules"),
        path="/api_keys?x=",
    ),
    Case("a plus sign", invalid(limit=LIMIT), path="/api_keys?limit=+1"),
    Case("a limit with a zero first", invalid(limit=LIMIT), path="/api_keys?limit=05"),
    Case("a limit out of bounds", invalid(limit=LIMIT), path="/api_keys?limit=101"),
    Case("a query that a creation does not take", invalid(x=f"{KNOWN} none"), "POST", "/api_keys?x=1", {}),
]

ODD_PATHS = [
    Case("a slash behind a list", NO_ROUTE, path="/api_keys/"),
    Case("two slashes first", NO_ROUTE, path="//api_keys"),
    Case("two slashes within", NO_ROUTE, path="/edges//https"),
    Case("a semicolon behind a list", NO_ROUTE, path="/api_keys;x"),
    Case("an id of a right form that names nothing", NOT_FOUND, path=f"/api_keys/ak_{'0' * 27}"),
    Case("an id of another kind", NOT_FOUND, path=f"/api_keys/tn_{'0' * 27}"),
    Case("a very long id", NOT_FOUND, path=f"/api_keys/{'a' * 4000}"),
    Case("two dots for an id", NOT_FOUND, path="/api_keys/.."),
    Case("percent-encoded dots for an id", NOT_FOUND, path="/api_keys/%2e%2e"),
    Case("an id in other letters", NOT_FOUND, path="/api_keys/%C3%A9%F0%9F%A6%8A"),
    Case("a percent-encoded slash in an id", NOT_FOUND, path="/api_keys/a%2Fb"),
    Case("a percent-encoded question mark in an id", NOT_FOUND, path="/api_keys/a%3Fb"),
    Case("a variable for an id", NOT_FOUND, path="/api_keys/%7Bid%7D"),
    Case("a tunnel that is not there", NOT_FOUND, path=f"/tunnels/tn_{'0' * 27}"),
]

EVERY = [
    *UNKNOWN_PATHS,
    *OTHER_METHODS,
    *BAD_TOKENS,
    *VERSIONS,
    *BAD_BODIES,
    *BAD_FIELDS,
    *QUERIES,
    *ODD_PATHS,
]


def parametrize(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
