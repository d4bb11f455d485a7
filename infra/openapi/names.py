"""The names of operations, schemas and tags: all follow from a method and a path, so that they stay what they are."""

import re
from dataclasses import dataclass

from chalicelib.api.endpoints import Endpoint

_SPELT = {
    "api": "API",
    "http": "HTTP",
    "https": "HTTPS",
    "json": "JSON",
    "oauth": "OAuth",
    "openapi": "OpenAPI",
    "ssh": "SSH",
    "tcp": "TCP",
    "tls": "TLS",
}
_VERBS = {"POST": "create", "GET": "get", "PATCH": "update", "PUT": "replace", "DELETE": "delete"}
_VARIABLE = re.compile(r"/\{\w+\}")


@dataclass(frozen=True)
class Named:
    """An endpoint by the words of its path: `tls_edge`, `tls_edge_backend`; `holders` is what stands before its id."""

    noun: str
    kind: str
    verb: str

    @staticmethod
    def of(endpoint: Endpoint, collections: set[str]) -> "Named":
        """The words of an endpoint, given the paths of all lists."""
        steps = _VARIABLE.split(endpoint.path)
        is_list = endpoint.path in collections
        of_kinds = [*steps[:-1], steps[-1]] if is_list else steps[:-1]
        kinds = [_kind(step) for step in of_kinds]
        last = [] if is_list or not steps[-1] else [re.sub(r"\W", "_", steps[-1].strip("/"))]
        verb = "list" if is_list and endpoint.method == "GET" else _VERBS[endpoint.method]
        return Named("_".join(kinds + last), "_".join(kinds), verb)

    @property
    def operation(self) -> str:
        """As in create_api_key, list_api_keys."""
        return f"{self.verb}_{plural(self.noun) if self.verb == 'list' else self.noun}"

    @property
    def summary(self) -> str:
        """As in Create API key."""
        verb, _, noun = self.operation.partition("_")
        return f"{verb.capitalize()} {spelt(noun)}"

    @property
    def shown(self) -> str:
        """The name of the response's schema: APIKey, APIKeyList."""
        return pascal(self.noun) + ("List" if self.verb == "list" else "")

    @property
    def asked(self) -> str:
        """The name of the request's schema: APIKeyCreate."""
        return pascal(self.noun) + self.verb.capitalize()

    @property
    def tag(self) -> str:
        """The name of the group in which it stands: API keys."""
        words = spelt(plural(self.kind)) if self.kind else "reference"
        return words[0].upper() + words[1:]


def spelt(noun: str) -> str:
    """As people write it: `ssh_credential` is SSH credential."""
    return " ".join(_SPELT.get(word, word) for word in noun.split("_"))


def pascal(noun: str) -> str:
    """As a class is named: `ssh_credential` is SSHCredential."""
    return "".join(_SPELT.get(word, word.capitalize()) for word in noun.split("_"))


def plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"


def _kind(step: str) -> str:
    """One of those in a list: `/edges/tls` holds each a `tls_edge`, `/api_keys` each an `api_key`."""
    group, _, special = step.strip("/").partition("/")
    singular = f"{group[:-3]}y" if group.endswith("ies") else group.removesuffix("s")
    return f"{special}_{singular}" if special else singular
