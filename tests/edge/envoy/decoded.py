"""Encoded messages as JSON, with the field names of Envoy's documentation."""

import importlib
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from edge.envoy.ads import catalog
from edge.envoy.resources import Resource

for _name in ("downstream_connections", "fixed_heap", "injected_resource"):  # types that a bootstrap packs
    importlib.import_module(f"envoy.extensions.resource_monitors.{_name}.v3.{_name}_pb2")
importlib.import_module("envoy.extensions.bootstrap.internal_listener.v3.internal_listener_pb2")
importlib.import_module("envoy.config.overload.v3.overload_pb2")


def body(resource: Resource) -> Any:
    """Return a resource or a part as JSON."""
    return to_json(catalog.MESSAGES[resource.key.kind].FromString(catalog.encode(resource)))


def to_json(message: Any) -> Any:
    """Return a message as JSON."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def normalize(content: Mapping[str, Any], message: Any) -> Any:
    """Return JSON of a message as `to_json` writes it."""
    return to_json(json_format.ParseDict(content, message()))
