"""Limits the requests of each IPv4 address and each IPv6 /64 network. This file does no I/O.

Envoy cannot count the connections of an address (envoyproxy/envoy#27853). Other means limit connections: each port has
its own limit, connections without data wait in the kernel, and the firewall (infra/deploy/tunnel-edge.nft) limits the
connections of each address.
"""

from edge.envoy import parts, v3
from edge.process.settings import Limits

_KEY = "masked_remote_address"  # the name of Envoy's descriptor for the visitor's network
_NETWORK = v3.RateLimit.Action.MaskedRemoteAddress(
    v4_prefix_mask_len=parts.number(32), v6_prefix_mask_len=parts.number(64)
)
_BURST = 5  # a visitor can send the requests of so many seconds at once: a page can load a thousand JavaScript modules
# Refills of a visitor's token bucket per second. With only one refill per second, all waiting visitors would send their
# requests at the same moment.
_FILLS_PER_SECOND = 10
_UNLIMITED = 1_000_000_000
_ALL = v3.RuntimeFractionalPercent(default_value=v3.FractionalPercent(numerator=100))


def build_rate_limit(limits: Limits) -> v3.HttpFilter:
    """Return the filter that answers 429 to visitors above the limit of requests per second.

    After a pause, a visitor may send a burst of requests above this limit.
    """
    rate = limits.max_requests_per_visitor
    at_once = -(-rate // _FILLS_PER_SECOND)
    interval = round(at_once / rate, 3)  # Envoy requires the same interval for all buckets
    network = v3.LocalRateLimitDescriptor(
        entries=[v3.RateLimitDescriptor.Entry(key=_KEY)], token_bucket=_bucket(_BURST * rate, at_once, interval)
    )
    config = v3.LocalRateLimit(
        stat_prefix="visitor",
        # Envoy also requires a bucket for all visitors together. This bucket is too large to limit them.
        token_bucket=_bucket(_UNLIMITED, _UNLIMITED, interval),
        filter_enabled=_ALL,
        filter_enforced=_ALL,
        descriptors=[network],
        rate_limits=[v3.RateLimit(actions=[v3.RateLimit.Action(masked_remote_address=_NETWORK)])],
        # Each visitor has a descriptor, and there cannot be more visitors than connections.
        max_dynamic_descriptors=parts.number(limits.max_connections),
        always_consume_default_token_bucket=v3.BoolValue(value=False),
    )
    return v3.HttpFilter(name="envoy.filters.http.local_ratelimit", typed_config=parts.pack(config))


def _bucket(max_tokens: int, at_once: int, interval: float) -> v3.TokenBucket:
    return v3.TokenBucket(
        max_tokens=max_tokens, tokens_per_fill=parts.number(at_once), fill_interval=parts.seconds(interval)
    )
