"""The traffic policy of TCP edges (SPEC 2.9). It is a JSON document in a string, stored as it was sent."""

from typing import Annotated

from chalicelib.http import messages
from chalicelib.http.errors import MalformedJson
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.traffic_policy import MODULE
from chalicelib.schema.rules import After, max_bytes, not_empty
from chalicelib.schema.shapes import Shape


class Action(Shape):
    model_config = {"extra": "allow"}  # the names of all other fields depend on `type`, and are not checked

    type: Annotated[str, not_empty]


class Rule(Shape):
    name: str = ""
    expressions: list[str] = []
    actions: Annotated[list[Action], not_empty]


class Document(Shape):
    inbound: list[Rule] = []
    outbound: list[Rule] = []


def _check_policy(text: str) -> str:
    try:
        document = messages.read_object(text)
    except MalformedJson as error:
        raise ValueError(f"must be a JSON document: {error.message.rstrip('.')}") from None
    _, errors = messages.read(Document, document, {})
    if errors:
        raise ValueError("must be a policy: " + "; ".join(f"{path} {rule}" for path, rule in list(errors.items())[:10]))
    return text


class TrafficPolicy(Enabled):
    """Applies rules to the traffic of a TCP edge."""

    value: Annotated[
        str,
        max_bytes(128 * 1024),
        After(_check_policy, {"format": "traffic-policy"}),
    ]
    """A serialized JSON document, stored as it was sent: an object with arrays of rules, `inbound` and `outbound`.

    Each rule has `name` (string), `expressions` (strings) and `actions` (at least one object with a `type`, for example
    `deny`). If the edge cannot enforce every part of a policy, it closes the port, and the status says why.
    """


MODULES = tuple(Module(path=path, shape=TrafficPolicy, stored=MODULE.stored) for path in MODULE.paths)
