"""The only differences between transports: which answers which case otherwise than the rest, what exactly, and why."""

from dataclasses import dataclass

from tests.contract.answers import NO_ROUTE, Accepted, Bodiless, Refused, method_not_allowed
from tests.contract.cases import Case


@dataclass(frozen=True)
class Difference:
    instead: Refused | Accepted | Bodiless
    why: str


_NO_FALLBACK = "It has no fallback for other methods: the gateway says itself that there is no such route."
_NO_WIRE = "There is no wire, whose reader takes the body of an answer to HEAD away."

DIFFERENCES: dict[str, dict[str, Difference]] = {
    "in_process": {
        "HEAD /api_keys": Difference(method_not_allowed("GET, POST"), _NO_WIRE),
        "HEAD /api_keys/ak_1": Difference(method_not_allowed("DELETE, GET, PATCH"), _NO_WIRE),
    },
    "local_server": {},
    "emulated_gateway": {
        "PUT /api_keys": Difference(NO_ROUTE, _NO_FALLBACK),
        "PATCH /api_keys": Difference(NO_ROUTE, _NO_FALLBACK),
        "DELETE /api_keys": Difference(NO_ROUTE, _NO_FALLBACK),
        "HEAD /api_keys": Difference(Bodiless(404), _NO_FALLBACK),
        "OPTIONS /api_keys": Difference(NO_ROUTE, _NO_FALLBACK),
        "POST /api_keys/ak_1": Difference(NO_ROUTE, _NO_FALLBACK),
        "HEAD /api_keys/ak_1": Difference(Bodiless(404), _NO_FALLBACK),
        "POST /edges/tls/edgtls_1/backend": Difference(NO_ROUTE, _NO_FALLBACK),
        "POST /": Difference(NO_ROUTE, _NO_FALLBACK),
        "a percent-encoded slash in an id": Difference(NO_ROUTE, "It decodes a path before it looks for its route."),
    },
    "gateway": {},
}


def expected_answer(transport: str, case: Case) -> Refused | Accepted | Bodiless:
    """Return the transport's answer to the case."""
    difference = DIFFERENCES[transport].get(case.name)
    return difference.instead if difference else case.expected
