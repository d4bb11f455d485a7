"""Builds small messages of Envoy's API that other messages contain. This file does no I/O."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TypeVar

from google.protobuf.message import Message

from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import v3
from edge.link import sockets
from edge.process.settings import Limits, Settings

M = TypeVar("M", bound=Message)
# The flow control windows of HTTP/2, in bytes.
STREAM_WINDOW, CONNECTION_WINDOW = v3.UInt32Value(value=1 << 20), v3.UInt32Value(value=4 << 20)
_MAX_SERVER_NAME = 255  # bytes of the longest server name
ADS = v3.ConfigSource(
    ads=v3.AggregatedConfigSource(), resource_api_version=v3.ApiVersion.V3
)  # for a resource that Envoy requests from control


def copy(template: M) -> M:
    """Return a copy of a message, in which fields can be changed."""
    message = type(template)()
    message.CopyFrom(template)
    return message


def pack(message: Message) -> v3.Any:
    """Return a message as the content of a field that accepts any type."""
    packed = v3.Any()
    packed.Pack(message, deterministic=True)
    return packed


def seconds(value: float) -> v3.Duration:
    """Return a duration, exact to a nanosecond."""
    duration = v3.Duration()
    duration.FromNanoseconds(round(value * 1_000_000_000))
    return duration


def number(value: int) -> v3.UInt32Value:
    """Return a number as a message, for fields in which 0 differs from an unset value."""
    return v3.UInt32Value(value=value)


def text(value: str) -> v3.DataSource:
    return v3.DataSource(inline_string=value)


def format_string(value: str) -> v3.SubstitutionFormatString:
    """Return a text in which Envoy replaces commands, such as %DURATION%."""
    return v3.SubstitutionFormatString(text_format_source=text(value))


def regex(expression: str) -> v3.StringMatcher:
    """Return a matcher of texts that match an expression from start to end."""
    return v3.StringMatcher(safe_regex=v3.RegexMatcher(regex=expression))


def set_header(name: str, value: str) -> v3.HeaderValueOption:
    """Return the option that sets a header, and replaces existing values."""
    return v3.HeaderValueOption(
        header=v3.HeaderValue(key=name, value=value), append_action=v3.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    )


@lru_cache(256)
def respond(page: str) -> v3.DirectResponseAction:
    """Return the direct response that sends a page. The page begins with its status code."""
    return v3.DirectResponseAction(status=int(page[:3]), body=text(page))


def set_metadata(metadata: v3.Metadata, **values: str) -> None:
    """Set values in metadata that access logs and filters can read."""
    fields = metadata.filter_metadata["edge"].fields
    for name, value in values.items():
        fields[name].string_value = value


def struct(**values: str | bool) -> v3.Struct:
    """Return a Struct of strings and booleans."""
    return v3.Struct(fields={name: _value(value) for name, value in values.items()})


def _value(value: str | bool) -> v3.Value:
    return v3.Value(bool_value=value) if isinstance(value, bool) else v3.Value(string_value=value)


_RETRY = v3.GrpcRetryPolicy(  # sends a request to another host only if the first host has not received the request
    retry_on="connect-failure,refused-stream",
    num_retries=v3.UInt32Value(value=1),
    retry_host_predicate=[
        v3.GrpcRetryPolicy.RetryHostPredicate(
            name="envoy.retry_host_predicates.previous_hosts", typed_config=pack(v3.PreviousHostsPredicate())
        )
    ],
    host_selection_retry_max_attempts=3,
)


def authorization(cluster: str, timeout: float, settings: Settings) -> v3.ExtAuthz:
    """Return a filter configuration that asks the sign-in service by gRPC. If the service fails, visitors get 503."""
    service = v3.GrpcService(envoy_grpc=v3.GrpcService.EnvoyGrpc(cluster_name=cluster), timeout=seconds(timeout))
    if settings.sign_in_hosts:  # with a single host, a retry policy has no use, and takes 2.5 KiB for each manager
        service.retry_policy.CopyFrom(_RETRY)
    return v3.ExtAuthz(
        grpc_service=service,
        transport_api_version=v3.ApiVersion.V3,
        status_on_error=v3.HttpStatus(code=v3.ServiceUnavailable),
    )


def check_settings(**facts: str) -> v3.Any:
    """Return the configuration of a route that makes Envoy send facts to the sign-in service."""
    return pack(v3.ExtAuthzPerRoute(check_settings=v3.CheckSettings(context_extensions=facts)))


def address(host: str, port: int) -> v3.Address:
    """Return the address of a TCP port."""
    return v3.Address(socket_address=v3.SocketAddress(address=host, port_value=port))


def assignment(cluster: str, address: v3.Address) -> v3.ClusterLoadAssignment:
    """Return the endpoints of a cluster that has only one address."""
    endpoint = v3.LbEndpoint(endpoint=v3.Endpoint(address=address))
    return v3.ClusterLoadAssignment(cluster_name=cluster, endpoints=[v3.LocalityLbEndpoints(lb_endpoints=[endpoint])])


@cache
def socket_options(limits: Limits) -> tuple[v3.SocketOption, ...]:
    """Return the socket options for buffer sizes and keepalive."""
    options = sockets.options(limits.max_socket_kib << 10)
    return tuple(
        v3.SocketOption(level=level, name=name, int_value=value, state=v3.SocketOption.STATE_PREBIND)
        for (level, name), value in options.items()
    )


def networks(cidrs: Iterable[str]) -> list[v3.CidrRange]:
    """Return networks in CIDR notation as Envoy's address ranges."""
    ranges = map(ipaddress.ip_network, cidrs)
    return [
        v3.CidrRange(address_prefix=str(network.network_address), prefix_len=number(network.prefixlen))
        for network in ranges
    ]


def reserved_secret(purpose: str) -> str:
    """Return the name of a secret that no visitor can select.

    Envoy requests a secret with the server name that a visitor sends, which can contain any characters. So the returned
    name is longer than any server name.
    """
    return purpose.ljust(_MAX_SERVER_NAME + 1, "/")


def secret(name: str) -> v3.SdsSecretConfig:
    """Return the reference to a certificate with its key."""
    return v3.SdsSecretConfig(name=name, sds_config=ADS)


def add_endpoints(
    cluster: v3.Cluster, members: Sequence[tuple[ServedTunnel, Gateway]], region: str
) -> list[v3.LocalityLbEndpoints]:
    """Add the tunnels of a group to a cluster. Tunnels in `region` have priority 0, and others have priority 1.

    If no tunnel is in the region, all have priority 0.
    """
    local = [member for member in members if member[1].region == region]
    remote = [member for member in members if member[1].region != region]
    added = []
    for priority, subset in enumerate([local, remote] if local and remote else [members]):
        added.append(cluster.load_assignment.endpoints.add(priority=priority))
        added[-1].lb_endpoints.extend(_endpoints(subset))
    if len(added) > 1:
        cluster.load_assignment.policy.overprovisioning_factor.value = 100
    return added


def _endpoints(members: Sequence[tuple[ServedTunnel, Gateway]]) -> Iterator[v3.LbEndpoint]:
    """Yield the endpoint of each tunnel. The same message object is yielded each time, so the caller must copy it."""
    message = v3.LbEndpoint()
    endpoint, address = message.endpoint, message.endpoint.address.socket_address
    for tunnel, gateway in members:
        endpoint.hostname, address.address, address.port_value = tunnel.id, gateway.host, gateway.port
        yield message
