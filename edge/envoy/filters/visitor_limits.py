"""The request limit of one visitor: an IPv4 address or an IPv6 /64. Pure.

Envoy cannot count connections by address (envoyproxy/envoy#27853). Instead ports have separate limits, the system
delays connections without data, and infra/deploy/tunnel-edge.nft limits the others.
"""

from envoy.config.core.v3.base_pb2 import RuntimeFractionalPercent
from envoy.config.route.v3.route_components_pb2 import RateLimit
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import LocalRateLimitDescriptor, RateLimitDescriptor
from envoy.extensions.filters.http.local_ratelimit.v3.local_rate_limit_pb2 import LocalRateLimit
from envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2 import HttpFilter
from envoy.type.v3.percent_pb2 import FractionalPercent
from envoy.type.v3.token_bucket_pb2 import TokenBucket
from google.protobuf.wrappers_pb2 import BoolValue

from edge.envoy import parts
from edge.process.settings import Limits

_KEY = "masked_remote_address"  # Envoy's descriptor with the network
_NETWORK = RateLimit.Action.MaskedRemoteAddress(
    v4_prefix_mask_len=parts.number(32), v6_prefix_mask_len=parts.number(64)
)
_BURST = 5  # seconds of requests that a visitor can send at once: a page of modules loads a thousand files
_FILLS_PER_SECOND = 10  # of a bucket: with one a second, all waiting visitors would return at the same time
_UNLIMITED = 1_000_000_000
_ALL = RuntimeFractionalPercent(default_value=FractionalPercent(numerator=100))


def build_rate_limit(limits: Limits) -> HttpFilter:
    """Return the filter that answers 429 to visitors above the rate. Unused requests allow a burst."""
    most = limits.max_requests_per_visitor
    at_once = -(-most // _FILLS_PER_SECOND)
    interval = round(at_once / most, 3)  # Envoy requires the same for all buckets
    network = LocalRateLimitDescriptor(
        entries=[RateLimitDescriptor.Entry(key=_KEY)], token_bucket=_bucket(_BURST * most, at_once, interval)
    )
    config = LocalRateLimit(
        stat_prefix="visitor",
        token_bucket=_bucket(_UNLIMITED, _UNLIMITED, interval),  # for all visitors together, which Envoy requires too
        filter_enabled=_ALL,
        filter_enforced=_ALL,
        descriptors=[network],
        rate_limits=[RateLimit(actions=[RateLimit.Action(masked_remote_address=_NETWORK)])],
        max_dynamic_descriptors=parts.number(limits.max_connections),  # more visitors cannot be connected
        always_consume_default_token_bucket=BoolValue(value=False),
    )
    return HttpFilter(name="envoy.filters.http.local_ratelimit", typed_config=parts.pack(config))


def _bucket(most: int, at_once: int, interval: float) -> TokenBucket:
    return TokenBucket(max_tokens=most, tokens_per_fill=parts.number(at_once), fill_interval=parts.seconds(interval))
