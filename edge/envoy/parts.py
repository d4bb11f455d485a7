"""Small messages that others contain. Pure."""

import ipaddress
from collections.abc import Iterable
from functools import cache

from envoy.config.core.v3.address_pb2 import Address, CidrRange, SocketAddress
from envoy.config.core.v3.base_pb2 import DataSource, HeaderValue, HeaderValueOption, Metadata
from envoy.config.core.v3.config_source_pb2 import AggregatedConfigSource, ApiVersion, ConfigSource
from envoy.config.core.v3.socket_option_pb2 import SocketOption
from envoy.config.core.v3.substitution_format_string_pb2 import SubstitutionFormatString
from envoy.config.endpoint.v3.endpoint_components_pb2 import Endpoint, LbEndpoint, LocalityLbEndpoints
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
from envoy.config.route.v3.route_components_pb2 import DirectResponseAction
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import SdsSecretConfig
from envoy.type.matcher.v3.regex_pb2 import RegexMatcher
from envoy.type.matcher.v3.string_pb2 import StringMatcher
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.wrappers_pb2 import UInt32Value

from edge.link import sockets
from edge.process.settings import Limits

STREAM_WINDOW, CONNECTION_WINDOW = UInt32Value(value=1 << 20), UInt32Value(value=4 << 20)  # of HTTP/2, in bytes
_MAX_SERVER_NAME = 255  # bytes
ADS = ConfigSource(ads=AggregatedConfigSource(), resource_api_version=ApiVersion.V3)  # of resources referenced by name


def pack(message: Message) -> Any:
    """Return a message as the content of a field that accepts any type."""
    packed = Any()
    packed.Pack(message, deterministic=True)
    return packed


def seconds(value: float) -> Duration:
    """Return a duration, exact to a nanosecond."""
    duration = Duration()
    duration.FromNanoseconds(round(value * 1_000_000_000))
    return duration


def number(value: int) -> UInt32Value:
    """Return a number for a field in which 0 differs from none."""
    return UInt32Value(value=value)


def text(value: str) -> DataSource:
    """Return a source of data that is this text."""
    return DataSource(inline_string=value)


def format_string(value: str) -> SubstitutionFormatString:
    """Return a text in which Envoy replaces commands."""
    return SubstitutionFormatString(text_format_source=text(value))


def regex(expression: str) -> StringMatcher:
    """Return a matcher of whole texts."""
    return StringMatcher(safe_regex=RegexMatcher(regex=expression))


def set_header(name: str, value: str) -> HeaderValueOption:
    """Return the addition of a header that replaces an earlier value."""
    return HeaderValueOption(
        header=HeaderValue(key=name, value=value), append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    )


def respond(page: str) -> DirectResponseAction:
    """Return the response with a page, which begins with its status."""
    return DirectResponseAction(status=int(page[:3]), body=text(page))


def metadata(**values: str) -> Metadata:
    """Return metadata that access logs and filters can read."""
    return Metadata(filter_metadata={"edge": struct(**values)})


def struct(**values: str) -> Struct:
    """Return an object of texts."""
    return Struct(fields={name: Value(string_value=value) for name, value in values.items()})


def address(host: str, port: int) -> Address:
    """Return the address of a TCP port."""
    return Address(socket_address=SocketAddress(address=host, port_value=port))


def assignment(cluster: str, address: Address) -> ClusterLoadAssignment:
    """Return the only address of a cluster."""
    endpoint = LbEndpoint(endpoint=Endpoint(address=address))
    return ClusterLoadAssignment(cluster_name=cluster, endpoints=[LocalityLbEndpoints(lb_endpoints=[endpoint])])


@cache
def socket_options(limits: Limits) -> tuple[SocketOption, ...]:
    """Return the socket options for buffer sizes and keepalive."""
    options = sockets.options(limits.max_socket_kib << 10)
    return tuple(
        SocketOption(level=level, name=name, int_value=value, state=SocketOption.STATE_PREBIND)
        for (level, name), value in options.items()
    )


def networks(cidrs: Iterable[str]) -> list[CidrRange]:
    """Return networks as Envoy's address ranges."""
    found = map(ipaddress.ip_network, cidrs)
    return [CidrRange(address_prefix=str(it.network_address), prefix_len=number(it.prefixlen)) for it in found]


def reserved_secret(purpose: str) -> str:
    """Return the name of a secret that no visitor can select. It is longer than any server name.

    Envoy requests the server name as a visitor spells it, with any letters and signs.
    """
    return purpose.ljust(_MAX_SERVER_NAME + 1, "/")


def secret(name: str) -> SdsSecretConfig:
    """Return the reference to a certificate with its key."""
    return SdsSecretConfig(name=name, sds_config=ADS)
