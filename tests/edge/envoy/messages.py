"""Encoded messages as JSON, with the field names of Envoy's documentation, and the other way round."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from edge.envoy.resources import MESSAGES, Key, Resource


def decode(resource: Resource) -> Any:
    """Return a resource or a part as JSON."""
    return to_json(MESSAGES[resource.key.kind].FromString(resource.encoded))


def to_json(message: Message) -> Any:
    """Return a message as JSON."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def encode(key: Key, body: Any) -> Resource:
    """Return the resource or the part that this JSON describes."""
    message = json_format.ParseDict(body, MESSAGES[key.kind]())
    return Resource(key, message.SerializeToString(deterministic=True))
