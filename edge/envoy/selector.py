"""Envoy's selector of certificates by server name, which requests them during the handshake. Pure.

`xds-protos` 1.85 lacks its two messages. They are registered here, as Envoy 1.40 defines them.
"""

import functools
import importlib

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from edge.envoy import json_parts as parts
from edge.envoy.resources import Json

OPERATOR_SECRET = parts.reserved_secret("operator")
_PACKAGE = "envoy.extensions.transport_sockets.tls"
_MAPPER, _SELECTOR = f"{_PACKAGE}.cert_mappers.sni.v3", f"{_PACKAGE}.cert_selectors.on_demand_secret.v3"


def build_selector() -> Json:
    """Return the selector. Clients without a server name get the operator's certificate."""
    mapper = parts.extension(
        "envoy.tls.certificate_mappers.sni", f"type.googleapis.com/{_MAPPER}.SNI", default_value=OPERATOR_SECRET
    )
    return parts.extension(
        "envoy.tls.certificate_selectors.on_demand_secret",
        f"type.googleapis.com/{_SELECTOR}.Config",
        config_source=parts.ADS,
        certificate_mapper=mapper,
    )


@functools.cache
def register_messages() -> None:
    """Make the two messages known to the encoder."""
    for module in ("config_source", "extension"):  # the selector's fields
        importlib.import_module(f"envoy.config.core.v3.{module}_pb2")
    core = "envoy/config/core/v3"
    source, extension = ".envoy.config.core.v3.ConfigSource", ".envoy.config.core.v3.TypedExtensionConfig"
    _register(_MAPPER, "SNI", [], default_value="")
    needs = [f"{core}/config_source.proto", f"{core}/extension.proto"]
    _register(_SELECTOR, "Config", needs, config_source=source, certificate_mapper=extension)


def _register(package: str, message: str, needs: list[str], **fields: str) -> None:
    """Add a message to the default pool. `fields` are in the order of their numbers, with their type, "" for text."""
    file = FileDescriptorProto(
        name=f"{package.replace('.', '/')}/config.proto", package=package, dependency=needs, syntax="proto3"
    )
    added = file.message_type.add(name=message)
    for number, (name, kind) in enumerate(fields.items(), start=1):
        field = added.field.add(number=number, name=name, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
        if kind:
            field.type, field.type_name = Field.TYPE_MESSAGE, kind
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
