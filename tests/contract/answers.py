"""What an answer must be through every transport: all of it but a refusal's sentence, which gateways word their way."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.refusals import refusal
from tests.transports import Answer


@dataclass(frozen=True)
class Refused:
    """A refusal with its one body."""

    status: int
    code: str
    details: Mapping[str, str] = field(default_factory=dict)  # beside the operation id
    headers: Mapping[str, str] = field(default_factory=dict)

    def check(self, answer: Answer) -> None:
        assert answer.status == self.status, answer.text
        assert re.fullmatch(r"\S[^\n]*[^\s.][.]", answer.json["msg"]), "not a sentence"
        assert answer.json == refusal(answer, self.code, answer.json["msg"], self.details)
        check_headers(answer, {"content-type": "application/json", **self.headers})


@dataclass(frozen=True)
class Accepted:
    """An answer with what was asked for."""

    status: int = 200

    def check(self, answer: Answer) -> None:
        assert answer.status == self.status, answer.text
        assert "error_code" not in answer.json
        check_headers(answer, {"content-type": "application/json"})


@dataclass(frozen=True)
class Bodiless:
    """An answer that ends with its head."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def check(self, answer: Answer) -> None:
        assert (answer.status, answer.text) == (self.status, "")
        check_headers(answer, self.headers)


def check_headers(answer: Answer, headers: Mapping[str, str]) -> None:
    assert {name: answer.headers.get(name) for name in headers} == headers
    assert answer.headers["operation-id"]


def method_not_allowed(methods: str) -> Refused:
    return Refused(405, "method_not_allowed", headers={"allow": methods})


def invalid(**details: str) -> Refused:
    return Refused(400, "invalid_request", details)


NO_ROUTE = Refused(404, "no_such_route")
NOT_FOUND = Refused(404, "not_found")
UNAUTHENTICATED = Refused(401, "unauthenticated", headers={"www-authenticate": "Bearer"})
UNSUPPORTED_VERSION = Refused(400, "unsupported_version")
UNSUPPORTED_TYPE = Refused(415, "unsupported_media_type")
TOO_LARGE = Refused(413, "payload_too_large")
MALFORMED = Refused(400, "malformed_json")
