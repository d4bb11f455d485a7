"""Operations by their names, which all follow from a method and a path, so that they stay what they are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from chalicelib import ids
from chalicelib.http.endpoints import Endpoint
from chalicelib.model import kinds
from chalicelib.model.kinds import Kind
from chalicelib.schema.shapes import Shape

_SPELT = {
    "api": "API",
    "http": "HTTP",
    "https": "HTTPS",
    "json": "JSON",
    "krl": "KRL",
    "oauth": "OAuth",
    "openapi": "OpenAPI",
    "ssh": "SSH",
    "tcp": "TCP",
    "tls": "TLS",
}
_VERBS = {"POST": "create", "GET": "get", "PATCH": "update", "PUT": "replace", "DELETE": "delete"}
_VARIABLE = re.compile(r"/\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """An endpoint by the names in its path: `tls_edge_backend` of the kind of TLS edges.

    `kinds` are those of the ids in its path, `prefixes` theirs by the names of the variables, `kind` the nearest one.
    """

    endpoint: Endpoint
    noun: str
    kinds: tuple[Kind, ...]
    kind: Kind | None
    verb: str
    prefixes: Mapping[str, str]

    @staticmethod
    def of(endpoint: Endpoint) -> "Operation":
        """Return the operation of an endpoint."""
        lists = [endpoint.path[: variable.start()] for variable in _VARIABLE.finditer(endpoint.path)]
        found = [kind for path in lists if (kind := kinds.at(path))]
        variables = {name: kind.prefix for name, kind in zip(_VARIABLE.findall(endpoint.path), found, strict=True)}
        listed = kinds.at(endpoint.path)
        nearest = listed or (found[-1] if found else None)
        own = "" if listed else endpoint.path.rpartition("}")[2].strip("/")
        noun = "_".join(filter(None, (nearest.noun if nearest else "", re.sub(r"\W", "_", own))))
        verb = "list" if listed and endpoint.method == "GET" else _VERBS[endpoint.method]
        return Operation(endpoint, noun, tuple(found), nearest, verb, variables)

    @property
    def entry(self) -> type[Shape] | None:
        """Return the shape of one of those that it lists, or None if it lists none."""
        response = self.endpoint.response
        return get_args(next(iter(response.__annotations__.values())))[0] if response and self.verb == "list" else None

    @property
    def id(self) -> dict[str, str]:
        """Return the form of the id that its path ends with as JSON Schema, or {} where it ends with none."""
        return form([*self.prefixes.values()][-1]) if self.endpoint.path.endswith("}") else {}

    @property
    def name(self) -> str:
        """Return the operation's id, for example create_api_key, list_api_keys."""
        return f"{self.verb}_{plural(self.noun) if self.verb == 'list' else self.noun}"

    @property
    def summary(self) -> str:
        """Return the operation's title, for example Create API key."""
        verb, _, noun = self.name.partition("_")
        return f"{verb.capitalize()} {spelt(noun)}"

    @property
    def response_schema(self) -> str:
        """Return the name of the response's schema, for example APIKey, APIKeyList."""
        return pascal(self.noun) + ("List" if self.verb == "list" else "")

    @property
    def request_schema(self) -> str:
        """Return the name of the request's schema, for example APIKeyCreate."""
        return pascal(self.noun) + self.verb.capitalize()

    @property
    def tag(self) -> str:
        """Return the name of its group, for example API keys."""
        words = plural(self.kind.name) if self.kind else "reference"
        return words[0].upper() + words[1:]


def form(prefix: str) -> dict[str, str]:
    """Return the form of ids with the prefix as JSON Schema."""
    return {"type": "string", "pattern": ids.pattern(prefix)}


def spelt(noun: str) -> str:
    """Return a noun as people write it: `ssh_credential` is SSH credential."""
    return " ".join(_SPELT.get(word, word) for word in noun.split("_"))


def pascal(noun: str) -> str:
    """Return a noun as classes are named: `ssh_credential` is SSHCredential."""
    return "".join(_SPELT.get(word, word.capitalize()) for word in noun.split("_"))


def plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"
