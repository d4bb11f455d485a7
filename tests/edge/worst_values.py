"""A hundred of the worst values that the API accepts of edges: what an engine is most likely to choke on.

A live trial makes each in one account while another account changes its own edge.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chalicelib import ids, modules
from chalicelib.model.base import kinds
from tests.modules import largest

DOMAIN = "worst.example.com"  # of all hostports
LARGE = ["[ab]*a[ab]{253}X"]  # with 40 for the step, all that a filter may cost


@dataclass(frozen=True)
class Worst:
    """A request: `at` is the path of a POST, `body` what is sent; `name` says what is bad about it.

    All that are of routes fit one edge.
    """

    name: str
    at: Literal["/edges/https", "/edges/https/{edge_id}/routes", "/backends/http_response"]
    body: Mapping[str, Any]


def _responses() -> Iterator[tuple[str, dict[str, Any]]]:
    no_body, unusual = (204, 205, 304), (206, 226, 300, 308, 407, 418, 421, 426, 431, 451, 499, 511, 599)
    for status in (*no_body, *unusual, 200, 401, 413, 429, 500, 502, 503, 504):
        yield f"status {status} with a body", {"status_code": status, "body": "x"}
    headers: dict[str, dict[str, str]] = {
        "fifty": {f"x-{number}": "a" * 300 for number in range(50)},
        "one as large as all may be": {"x-a": "a" * 16381},
        "a name as long as all may be": {"x" * 16383: "a"},
        "every sign that a name may hold": {"!#$%&'*+-.^_`|~": "1"},
        "empty": {"x-a": ""},
        "spaces": {"x-a": " a ", "x-b": " "},
        "not ASCII": {"x-a": "é🦊\u2028"},
        "a command of the engine": {"x-a": "%REQ(cookie)%", "x-b": "%DOWNSTREAM_PEER_CERT%", "x-c": "%"},
        "a broken command": {"x-a": "%REQ(", "x-b": "%%%", "x-c": "%UNKNOWN%", "x-d": "%START_TIME(%"},
        "the engine's own": {"x-envoy-immediate-health-check-fail": "1", "x-envoy-degraded": "1"},
        "an overload": {"x-envoy-overloaded": "true", "x-envoy-ratelimited": "true", "x-envoy-retry-on": "5xx"},
        "of gRPC": {"grpc-status": "99", "grpc-message": "%zz", "content-type": "application/grpc"},
        "a lie about the body": {"content-encoding": "gzip", "content-type": "", "content-range": "bytes 5-1/0"},
        "of the server": {"server": "", "date": "never", "via": "1.1 a", "alt-svc": 'h3=":443"'},
        "of a request": {"cookie": "a", "authorization": "b", "x-forwarded-for": "c", "expect": "100-continue"},
        "in capitals": {"SET-COOKIE": "a=b; Domain=.example.com", "LOCATION": "//["},
    }
    for name, value in headers.items():
        yield f"headers: {name}", {"headers": value, "body": "x"}
    bodies = {"as large as may be": "é" * 32768, "a NUL": "\0\x01\x7f", "a command": "%LOCAL_REPLY_BODY% {{a}} ${b}"}
    for name, body in bodies.items():
        yield f"body: {name}", {"body": body}


def _paths() -> Iterator[tuple[str, dict[str, Any]]]:
    odd = ("//", "/.", "/..", "/%", "/%zz", "/%00", "/%2f..%2f", "/*", "/**", "/{a}", "/{a=**}", "/a?b", "/a#b", "/\\")
    for path in (*odd, '/"', "/(", "/[", "/.*", "/$", "/;a", "/:a", "/~!", f"/{'a' * 1023}"):
        yield f"path {path[:20]}", {"match_type": "path_prefix", "match": path}
        if path in ("//", "/a?b", "/a#b", "/%00", "/\\"):
            yield f"exact path {path}", {"match_type": "exact_path", "match": path}


def _filters() -> Iterator[tuple[str, dict[str, Any]]]:
    patterns: dict[str, list[str]] = {
        "nothing": [""],
        "a hundred of nothing": [""] * 100,
        "only an end": ["^$", r"\z", "(?m)^$"],
        "a quotation without an end": [r"\Qa|b)"],
        "a quotation behind a backslash": [r"\\Q(a)", r"\Q\E\Q"],
        "flags that are not taken back": ["(?i)a", "(?U)a+", "(?s)a.b"],
        "nested repetition": ["(a*)*", "(a|a)*", "(((a+)+)+)+b", "((a{0,2}){0,2}){0,2}"],
        "a byte": [r"\C", r"\C\C\C*"],
        "no sign at all": [r"[^\x00-\xff]"],
        "all of Unicode": [r"\pL\pN", r"[\x{80}-\x{ff}]{9}"],
        "Kelvin": ["(?i)" + "k" * 25, "(?i)" + "s" * 25],
        "groups by name": ["(?P<a>x)", "(?P<b>y)"],
        "as many instructions as may be": ["[ab]*a[ab]{102}X"],  # half of the bound, in each of two lists
        "as long as may be": [(letter + "bcdefghijk" * 51)[:512] for letter in "lmnopqrs"],
        "a hundred": [f"{number:03}|{number}" for number in range(100)],
    }
    for index, (name, value) in enumerate(patterns.items()):
        rules = {"allow": value, "deny": value}
        path = {"match_type": "path_prefix", "match": f"/filtered/{index}"}
        yield f"user agents: {name}", {**path, "user_agent_filter": rules}


def _list_changed_headers() -> Iterator[tuple[str, dict[str, Any]]]:
    values = {
        "as many as may be": {f"X-{number}-{'n' * 58}": "v" * 200 for number in range(10)},
        "the longest": {"X-Long": "v" * 1024},
        "percent signs": {"X-Percent": "%" * 1024, "X-Command": "%REQ(cookie)% %"},
        "signs": {"X-Signs": "!#$&'()*+,-./:;<=>?@[]^_`{|}~"},
        "nothing": {"X-Nothing": ""},
    }
    for index, (name, add) in enumerate(values.items()):
        path = {"match_type": "path_prefix", "match": f"/headers/{index}"}
        module = {"add": add, "remove": [f"X-Removed-{number}" for number in range(10)]}
        webhook = {"provider": "GITLAB", "secret": "s" * 255}
        password = {"credentials": [{"username": "u" * 128, "password": "p" * 128}]}
        other_modules = {
            "compression": {},
            "circuit_breaker": _CIRCUIT,
            "webhook_verification": webhook,
            "basic_auth": password,
        }
        yield f"headers: {name}", {**path, "request_headers": module, "response_headers": module, **other_modules}


_CIRCUIT = {
    **dict.fromkeys(("tripped_duration", "rolling_window"), 3600),
    "num_buckets": 128,
    "volume_threshold": 1_000_000,
    "error_threshold_percentage": 1,
}


def _edges() -> Iterator[tuple[str, dict[str, Any]]]:
    label = "a" * 63
    hosts = {
        "twenty": [f"a{number}.{DOMAIN}:443" for number in range(20)],
        "twenty wildcards": [f"*.b{number}.{DOMAIN}:443" for number in range(20)],
        "the longest": [f"{label}.{label}.{label}.{'b' * 43}.{DOMAIN}:443"],
        "many labels": [f"{'a.' * 117}{DOMAIN}:443"],
        "a wildcard and what it covers": [f"*.c.{DOMAIN}:443", f"a.c.{DOMAIN}:443", f"*.a.c.{DOMAIN}:443"],
        "an international one": [f"xn--mnchen-3ya.{DOMAIN}:443", f"xn--80ak6aa92e.{DOMAIN}:443"],
        "digits": [f"0.{DOMAIN}:443", f"1-2.3.{DOMAIN}:443"],
        "none": [],
    }
    for name, hostports in hosts.items():
        yield f"hosts: {name}", {"hostports": hostports}
    for index, version in enumerate(("1.0", "1.1", "1.3")):
        termination = {"min_version": version}
        yield f"TLS {version}", {"hostports": [f"t{index}.{DOMAIN}:443"], "tls_termination": termination}
    upstream = {"hostports": [f"u.{DOMAIN}:443"], "terminate_at": "upstream"}
    yield "TLS that ends upstream", upstream
    unknown = {"certificate_authority_ids": [ids.new("ca") for _ in range(10)]}
    yield "authorities that are not there", {"hostports": [f"m.{DOMAIN}:443"], "mutual_tls": unknown}
    disabled = {"enabled": False, "certificate_authority_ids": [ids.new("ca")]}
    yield "mutual TLS that is not enabled", {"hostports": [f"n.{DOMAIN}:443"], "mutual_tls": disabled}


def _largest_modules() -> Iterator[Worst]:
    """Yield the largest value of each module of an HTTPS edge or route."""
    for module in modules.of(kinds.HTTPS_EDGE_ROUTES):
        path = {"match_type": "path_prefix", "match": f"/largest/{module.name}"}
        body = {**path, module.name: largest.make(module)}
        yield Worst(f"the largest {module.name}", "/edges/https/{edge_id}/routes", body)
    for module in modules.of(kinds.HTTPS_EDGES):
        host = f"largest-{module.name.replace('_', '-')}.{DOMAIN}:443"
        body = {"hostports": [host], module.name: largest.make(module)}
        yield Worst(f"an edge with the largest {module.name}", "/edges/https", body)


WORST_VALUES: tuple[Worst, ...] = (
    *(Worst(name, "/backends/http_response", body) for name, body in _responses()),
    *(
        Worst(name, "/edges/https/{edge_id}/routes", body)
        for name, body in (*_paths(), *_filters(), *_list_changed_headers())
    ),
    *(Worst(name, "/edges/https", body) for name, body in _edges()),
    *_largest_modules(),
)
