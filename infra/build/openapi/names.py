"""Operations by their names, which all follow from a method and a path, so that they stay what they are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib import ids
from chalicelib.http.endpoints import Endpoint
from chalicelib.model import kinds
from chalicelib.model.kinds import Kind
from chalicelib.schema import shapes
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
_SELF = "/self"  # ends the path of the one that the request itself comes from
_VARIABLE = re.compile(r"/\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """An endpoint by the names in its path: `tls_edge_backend` of the kind of TLS edges.

    `ids` are the kinds of the ids in its path by the names of the variables, `kind` the nearest one, `own` what of that
    kind it is about, "" for all of it, "self" for the one that the request comes from. In its `path` what it is about
    is `{id}` where the gateway, which knows one name for each place in a path, has another name there.
    """

    endpoint: Endpoint
    path: str
    noun: str
    own: str
    ids: Mapping[str, Kind]
    kind: Kind | None
    verb: str

    @staticmethod
    def of(endpoint: Endpoint) -> "Operation":
        """Return the operation of an endpoint."""
        if endpoint.path.endswith(_SELF):
            kind = kinds.at(endpoint.path.removesuffix(_SELF))
            return Operation(
                endpoint, endpoint.path, kind.noun if kind else "", "self", {}, kind, _VERBS[endpoint.method]
            )
        lists = [endpoint.path[: variable.start()] for variable in _VARIABLE.finditer(endpoint.path)]
        found = [kind for path in lists if (kind := kinds.at(path))]
        listed = kinds.at(endpoint.path)
        path = endpoint.path if listed else _with_id(endpoint.path)
        variables = dict(zip(_VARIABLE.findall(path), found, strict=True))
        nearest = listed or (found[-1] if found else None)
        own = "" if listed else re.sub(r"\W", "_", path.rpartition("}")[2].strip("/"))
        noun = "_".join(filter(None, (nearest.noun if nearest else "", own)))
        verb = "list" if listed and endpoint.method == "GET" else _VERBS[endpoint.method]
        if nearest and own == "verify":  # a deed, no part of what it is about
            noun, own, verb = nearest.noun, "", own
        return Operation(endpoint, path, noun, own, variables, nearest, verb)

    @property
    def id(self) -> dict[str, str]:
        """Return the form of the id that its path ends with as JSON Schema, or {} where it ends with none."""
        return form([*self.ids.values()][-1].prefix) if self.endpoint.path.endswith("}") else {}

    @property
    def body(self) -> type[Shape] | None:
        """Return the shape of the request's body, or None if it has no fields."""
        shape = self.endpoint.body
        return shape if shape and shapes.names(shape) else None  # type: ignore[arg-type]  # mypy looks for the hash of an instance

    @property
    def name(self) -> str:
        """Return the operation's id, for example create_api_key, list_api_keys."""
        own = "own_" if self.own == "self" else ""
        return f"{self.verb}_{own}{plural(self.noun) if self.verb == 'list' else self.noun}"

    @property
    def summary(self) -> str:
        """Return the operation's title, for example Create API key."""
        verb, _, noun = self.name.partition("_")
        return f"{verb.capitalize()} {spelt(noun)}"

    @property
    def response_schema(self) -> str:
        """Return the name of the response's schema, for example ApiKey, ApiKeyList."""
        return pascal(self.noun) + ("List" if self.verb == "list" else "")

    @property
    def request_schema(self) -> str:
        """Return the name of the request's schema, for example ApiKeyCreate."""
        return pascal(self.noun) + self.verb.capitalize()

    @property
    def tag(self) -> str:
        """Return the name of its group, for example API keys."""
        words = plural(self.kind.name) if self.kind else "caller" if self.endpoint.authorizer else "reference"
        return words[0].upper() + words[1:]


def _with_id(path: str) -> str:
    """Return a path whose last variable is `{id}`, if none is yet."""
    names = _VARIABLE.findall(path)
    return path.replace(f"{{{names[-1]}}}", "{id}") if names and "id" not in names else path


def form(prefix: str) -> dict[str, str]:
    """Return the form of ids with the prefix as JSON Schema."""
    return {"type": "string", "pattern": ids.pattern(prefix)}


def spelt(noun: str) -> str:
    """Return a noun as people write it: `ssh_credential` is SSH credential."""
    return " ".join(_SPELT.get(word, word) for word in noun.split("_"))


def pascal(noun: str) -> str:
    """Return a noun as classes are named: `ssh_credential` is SSHCredential.

    `api_key` is ApiKey: every client that is generated in Go has a type APIKey of its own.
    """
    return "".join(
        word.capitalize() if word == "api" else _SPELT.get(word, word.capitalize()) for word in noun.split("_")
    )


def plural(noun: str) -> str:
    if noun.endswith("ss"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"
