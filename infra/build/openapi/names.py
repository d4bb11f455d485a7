"""Names of operations, derived only from method and path, so that they stay stable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib import ids
from chalicelib.http.endpoints import Endpoint
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
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
_ACTIONS = ("offboard", "verify")  # actions on a resource, which are the last segments of their paths
_SELF = "/self"  # the end of paths such as /api_keys/self, which concern the caller of the request
_VARIABLE = re.compile(r"/\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """An endpoint with the names that follow from its method and path.

    For example, PUT /edges/tls/{id}/backend has the noun `tls_edge_backend`, the verb `replace` and the part "backend".
    `part` is "" if the operation concerns the whole resource, and "self" if it concerns the caller. `ids` has the kind
    of resource for each variable of the path, and `kind` is the kind of the last variable.

    The last variable of `path` is always `{id}`. In the endpoint's own path, this variable can have another name: the
    API gateway allows only one name for the variables at a position of its paths.
    """

    endpoint: Endpoint
    path: str
    noun: str
    part: str
    ids: Mapping[str, Kind]
    kind: Kind | None
    verb: str

    @staticmethod
    def of(endpoint: Endpoint) -> "Operation":
        """Return the operation of an endpoint."""
        if endpoint.path.endswith(_SELF):
            kind = kinds.find_by_path(endpoint.path.removesuffix(_SELF))
            return Operation(
                endpoint, endpoint.path, kind.noun if kind else "", "self", {}, kind, _VERBS[endpoint.method]
            )
        lists = [endpoint.path[: variable.start()] for variable in _VARIABLE.finditer(endpoint.path)]
        parents = [kind for path in lists if (kind := kinds.find_by_path(path))]
        listed = kinds.find_by_path(endpoint.path)
        path = endpoint.path if listed else _rename_variable(endpoint.path)
        variables = dict(zip(_VARIABLE.findall(path), parents, strict=True))
        nearest = listed or (parents[-1] if parents else None)
        part = "" if listed else re.sub(r"\W", "_", path.rpartition("}")[2].strip("/"))
        noun = "_".join(filter(None, (nearest.noun if nearest else "", part)))
        verb = "list" if listed and endpoint.method == "GET" else _VERBS[endpoint.method]
        if endpoint.is_oauth:
            noun, verb = part.removesuffix("s"), "exchange"
        if nearest and part in _ACTIONS:  # an action is the operation's verb, and not a part of its noun
            noun, part, verb = nearest.noun, "", part
        return Operation(endpoint, path, noun, part, variables, nearest, verb)

    @property
    def id(self) -> dict[str, str]:
        """Return the JSON Schema of the id at the end of the path, or {} if the path does not end with an id."""
        return form([*self.ids.values()][-1].prefix) if self.endpoint.path.endswith("}") else {}

    @property
    def body(self) -> type[Shape] | None:
        """Return the class of the request's body. Return None if this class has no fields."""
        shape = self.endpoint.body
        return shape if shape and shapes.names(shape) else None  # type: ignore[arg-type]  # mypy looks for the hash of an instance

    @property
    def name(self) -> str:
        """Return the operation's id, for example create_api_key, list_api_keys."""
        prefix = "own_" if self.part == "self" else ""
        return f"{self.verb}_{prefix}{plural(self.noun) if self.verb == 'list' else self.noun}"

    @property
    def summary(self) -> str:
        """Return the operation's title, for example Create API key."""
        verb, _, noun = self.name.partition("_")
        return f"{verb.capitalize()} {spell(noun)}"

    @property
    def response_schema(self) -> str:
        """Return the name of the response's schema, for example ApiKey, ApiKeyList.

        In generated clients, a schema and its field cannot have the same name. So if the response has a field that is
        named like the noun, the schema has the name of the Python class.
        """
        if self.verb == "offboard":
            return "OffboardingReport"
        response = self.endpoint.response
        if response and self.noun in response.__annotations__:
            return response.__name__
        return pascal(self.noun) + ("List" if self.verb == "list" else "")

    @property
    def request_schema(self) -> str:
        """Return the name of the request's schema, for example ApiKeyCreate."""
        if self.verb == "offboard" and self.body:  # all kinds of resources with this action share one schema
            return self.body.__name__
        return pascal(self.noun) + self.verb.capitalize()

    @property
    def example(self) -> str:
        """Return the name of the operation's examples: its noun, or "offboarding" for all offboard operations."""
        return "offboarding" if self.verb == "offboard" else self.noun

    @property
    def tag(self) -> str:
        """Return the name of the operation's group, for example API keys."""
        words = plural(self.kind.name) if self.kind else "caller" if self.endpoint.authorizer else "reference"
        return words[0].upper() + words[1:]


def _rename_variable(path: str) -> str:
    """Rename the last variable of a path to `{id}`, unless another variable of the path has that name."""
    names = _VARIABLE.findall(path)
    return path.replace(f"{{{names[-1]}}}", "{id}") if names and "id" not in names else path


def form(prefix: str) -> dict[str, str]:
    """Return the JSON Schema of ids that begin with a prefix."""
    return {"type": "string", "pattern": ids.pattern(prefix)}


def spell(noun: str) -> str:
    """Return a noun in normal spelling: `ssh_credential` is SSH credential."""
    return " ".join(_SPELT.get(word, word) for word in noun.split("_"))


def pascal(noun: str) -> str:
    """Return a noun as a class name: `ssh_credential` is SSHCredential.

    `api_key` is ApiKey, because generated Go clients already have a type APIKey.
    """
    return "".join(
        word.capitalize() if word == "api" else _SPELT.get(word, word.capitalize()) for word in noun.split("_")
    )


def plural(noun: str) -> str:
    if noun.endswith("ss"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"
