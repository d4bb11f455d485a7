"""Operations by their names, which all follow from a method and a path, so that they stay what they are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from chalicelib import ids
from chalicelib.api.endpoints import Endpoint
from chalicelib.api.fields import Shape

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
_VARIABLE = re.compile(r"/\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """An endpoint by the words of its path: `tls_edge_backend` of the kind `tls_edge`.

    `kinds` are those in its path, `prefixes` those of the ids in it, by the names of the variables.
    """

    endpoint: Endpoint
    noun: str
    kinds: tuple[str, ...]
    verb: str
    prefixes: Mapping[str, str]

    @staticmethod
    def of(endpoint: Endpoint, prefixes: Mapping[str, str]) -> "Operation":
        """The operation of an endpoint, given the prefix of the ids in each list, by its path."""
        lists = [endpoint.path[: variable.start()] for variable in _VARIABLE.finditer(endpoint.path)]
        variables = {name: prefixes[path] for name, path in zip(_VARIABLE.findall(endpoint.path), lists, strict=True)}
        is_list = endpoint.path in prefixes
        *before, last = _VARIABLE.sub("{}", endpoint.path).split("{}")
        kinds = [_kind(step) for step in (*before, *([last] if is_list else []))]
        own = [] if is_list or not last else [re.sub(r"\W", "_", last.strip("/"))]
        verb = "list" if is_list and endpoint.method == "GET" else _VERBS[endpoint.method]
        return Operation(endpoint, "_".join(kinds + own), tuple(kinds), verb, variables)

    @property
    def kind(self) -> str:
        """As in https_edge_route."""
        return "_".join(self.kinds)

    @property
    def entry(self) -> type[Shape] | None:
        """The shape of one of those that it lists."""
        shows = self.endpoint.shows
        return get_args(next(iter(shows.__annotations__.values())))[0] if shows and self.verb == "list" else None

    @property
    def id(self) -> dict[str, str]:
        """The form of the id that its path ends with, as JSON Schema says it; nothing where it ends otherwise."""
        return form([*self.prefixes.values()][-1]) if self.endpoint.path.endswith("}") else {}

    @property
    def name(self) -> str:
        """As in create_api_key, list_api_keys."""
        return f"{self.verb}_{plural(self.noun) if self.verb == 'list' else self.noun}"

    @property
    def summary(self) -> str:
        """As in Create API key."""
        verb, _, noun = self.name.partition("_")
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


def form(prefix: str) -> dict[str, str]:
    """The form of ids with the prefix, as JSON Schema says it."""
    return {"type": "string", "pattern": ids.pattern(prefix)}


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
