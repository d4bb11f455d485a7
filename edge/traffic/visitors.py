"""The bounds of one visitor: an address, or of IPv6 its /64. Pure.

Envoy counts requests by address. It has no count of connections by address (envoyproxy/envoy#27853): ports have budgets
apart, the system keeps those that say nothing to itself, and infra/deploy/tunnel-edge.nft counts the others.
"""

from edge.process.settings import Limits
from edge.traffic import parts
from edge.traffic.resources import Json

_LOCAL = f"{parts.TYPE}.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
_KEY = "masked_remote_address"  # which Envoy gives the network
_BURST = 5  # seconds whose requests a visitor may have at once: a page of modules asks for a thousand files
_FILLS_PER_SECOND = 10  # of a bucket a second: by one, all who wait would come at the same moment
_MAX_VISITORS = 1000  # visitors of one HTTP manager, the latest
_UNLIMITED = 1_000_000_000
_ALL: Json = {"default_value": {"numerator": 100}}


def build_rate_limit(limits: Limits) -> Json:
    """Return the filter that answers 429 to visitors that ask too often; who was quiet may ask for more at once."""
    most = limits.max_requests_per_visitor
    at_once = -(-most // _FILLS_PER_SECOND)
    interval = f"{at_once / most:.3f}s"  # of all buckets, as Envoy wants it
    own: Json = {"entries": [{"key": _KEY}], "token_bucket": _bucket(_BURST * most, at_once, interval)}
    address: Json = {"masked_remote_address": {"v4_prefix_mask_len": 32, "v6_prefix_mask_len": 64}}
    return parts.extension(
        "envoy.filters.http.local_ratelimit",
        _LOCAL,
        stat_prefix="visitor",
        token_bucket=_bucket(_UNLIMITED, _UNLIMITED, interval),  # of all together, which Envoy wants too
        filter_enabled=_ALL,
        filter_enforced=_ALL,
        descriptors=[own],
        rate_limits=[{"actions": [address]}],
        max_dynamic_descriptors=_MAX_VISITORS,
        always_consume_default_token_bucket=False,
    )


def _bucket(most: int, at_once: int, interval: str) -> Json:
    return {"max_tokens": most, "tokens_per_fill": at_once, "fill_interval": interval}
