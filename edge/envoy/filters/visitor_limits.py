"""The request limit of one visitor: an IPv4 address or an IPv6 /64. Pure.

Envoy cannot count connections by address (envoyproxy/envoy#27853). Instead ports have separate limits, the system
delays connections without data, and infra/deploy/tunnel-edge.nft limits the others.
"""

from edge.envoy import json_parts as parts
from edge.envoy.resources import Json
from edge.process.settings import Limits

_LOCAL = f"{parts.TYPE}.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
_KEY = "masked_remote_address"  # Envoy's descriptor with the network
_BURST = 5  # seconds of requests that a visitor can send at once: a page of modules loads a thousand files
_FILLS_PER_SECOND = 10  # of a bucket: with one a second, all waiting visitors would return at the same time
_UNLIMITED = 1_000_000_000
_ALL: Json = {"default_value": {"numerator": 100}}


def build_rate_limit(limits: Limits) -> Json:
    """Return the filter that answers 429 to visitors above the rate. Unused requests allow a burst."""
    most = limits.max_requests_per_visitor
    at_once = -(-most // _FILLS_PER_SECOND)
    interval = f"{at_once / most:.3f}s"  # Envoy requires the same for all buckets
    own: Json = {"entries": [{"key": _KEY}], "token_bucket": _bucket(_BURST * most, at_once, interval)}
    address: Json = {"masked_remote_address": {"v4_prefix_mask_len": 32, "v6_prefix_mask_len": 64}}
    return parts.extension(
        "envoy.filters.http.local_ratelimit",
        _LOCAL,
        stat_prefix="visitor",
        token_bucket=_bucket(_UNLIMITED, _UNLIMITED, interval),  # for all visitors together, which Envoy requires too
        filter_enabled=_ALL,
        filter_enforced=_ALL,
        descriptors=[own],
        rate_limits=[{"actions": [address]}],
        max_dynamic_descriptors=limits.max_connections,  # more visitors cannot be connected
        always_consume_default_token_bucket=False,
    )


def _bucket(most: int, at_once: int, interval: str) -> Json:
    return {"max_tokens": most, "tokens_per_fill": at_once, "fill_interval": interval}
