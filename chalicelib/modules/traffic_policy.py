"""The traffic policy of TCP edges (SPEC 2.9): a JSON document in a string, kept as it was sent."""

from typing import Annotated

from chalicelib.api import body, fields
from chalicelib.api.errors import MalformedJson
from chalicelib.api.fields import Shape
from chalicelib.api.module import Enabled, Module
from chalicelib.api.rules import Check, max_bytes, not_empty


class Action(Shape):
    model_config = {"extra": "allow"}  # every type of action has settings of its own

    type: Annotated[str, not_empty]


class Rule(Shape):
    name: str = ""
    expressions: list[str] = []
    actions: Annotated[list[Action], not_empty]


class Policy(Shape):
    inbound: list[Rule] = []
    outbound: list[Rule] = []


def _policy(text: str) -> str:
    try:
        document = body.read_object(text)
    except MalformedJson as error:
        raise ValueError(f"must be a JSON document: {error.message.rstrip('.')}") from None
    _, faults = fields.check(Policy, document)
    if faults:
        raise ValueError(
            "must be a policy: " + "; ".join(f"{place} {rule}" for place, rule in list(faults.items())[:10])
        )
    return text


class TrafficPolicy(Enabled):
    """The traffic policy applied to the traffic of a TCP edge."""

    value: Annotated[
        str,
        max_bytes(128 * 1024),
        Check(_policy, {"contentMediaType": "application/json", "format": "traffic-policy"}),
    ]
    """A serialized JSON document, kept as it was sent: an object with arrays of rules, `inbound` and `outbound`.

    Each rule has `name` (string), `expressions` (strings) and `actions` (at least one object with a `type`, for
    example `deny`).
    """


TRAFFIC_POLICY = Module(path="/edges/tcp/{id}/traffic_policy", shape=TrafficPolicy)
