"""Builds Envoy's certificate selector, which requests a certificate by server name during the handshake.

`xds-protos` 1.85 lacks the selector's two messages. This file registers them as Envoy 1.40 defines them. This file does
no I/O.
"""

from functools import cache

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

from edge.envoy import parts, v3

OPERATOR_SECRET = parts.reserved_secret("operator")
_PACKAGE = "envoy.extensions.transport_sockets.tls"


@cache
def build_selector() -> v3.TypedExtensionConfig:
    """Return the certificate selector. Clients without a server name get the operator's certificate."""
    mapper = _register(f"{_PACKAGE}.cert_mappers.sni.v3", "SNI", default_value=str)
    selector = _register(
        f"{_PACKAGE}.cert_selectors.on_demand_secret.v3",
        "Config",
        config_source=v3.ConfigSource,
        certificate_mapper=v3.TypedExtensionConfig,
    )
    by_name = v3.TypedExtensionConfig(
        name="envoy.tls.certificate_mappers.sni", typed_config=parts.pack(mapper(default_value=OPERATOR_SECRET))
    )
    return v3.TypedExtensionConfig(
        name="envoy.tls.certificate_selectors.on_demand_secret",
        typed_config=parts.pack(selector(config_source=parts.ADS, certificate_mapper=by_name)),
    )


def _register(package: str, name: str, **fields: type[str] | type[Message]) -> type[Message]:
    """Register a message type in the default pool. `fields` are in the order of their numbers, with their types."""
    file = FileDescriptorProto(name=f"{package.replace('.', '/')}/config.proto", package=package, syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        if issubclass(kind, str):
            message.field.add(number=number, name=field, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
        else:
            file.dependency.append(kind.DESCRIPTOR.file.name)
            message.field.add(
                number=number,
                name=field,
                label=Field.LABEL_OPTIONAL,
                type=Field.TYPE_MESSAGE,
                type_name=f".{kind.DESCRIPTOR.full_name}",
            )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
