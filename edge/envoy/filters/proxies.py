"""Reads visitors' addresses from trusted proxies in front of public listeners. This file does no I/O.

If proxies are configured, connections that do not come from them are refused.
"""

from edge.envoy import matchers, parts, v3
from edge.envoy.matchers import REFUSED, OnMatch, Predicate
from edge.process.settings import Settings

# Reads the PROXY protocol, and refuses connections without it.
PROXY_PROTOCOL = v3.ListenerFilter(
    name="envoy.filters.listener.proxy_protocol", typed_config=parts.pack(v3.ProxyProtocol())
)


def choose_trial_source(settings: Settings) -> str:
    """Return the loopback address from which this host makes test connections to its own names."""
    return "::1" if ":" in settings.host else "127.21.0.1"


def build_filters(settings: Settings) -> list[v3.ListenerFilter]:
    """Return the listener filters that read the visitor's address from a proxy. Return [] if no proxy is configured."""
    return [PROXY_PROTOCOL] if settings.proxy_protocol_from else []


def build_match(settings: Settings) -> v3.FilterChainMatch | None:
    """Return the match of a filter chain that accepts only connections from the proxies.

    Return None if no proxies are configured.
    """
    ranges = parts.networks(settings.proxy_protocol_from)
    return v3.FilterChainMatch(direct_source_prefix_ranges=ranges) if ranges else None


def guard_matcher(matcher: v3.Matcher, settings: Settings, *networks: str) -> v3.Matcher:
    """Return a matcher that refuses connections that do not come from a proxy.

    Connections from `networks` are accepted too.
    """
    if not settings.proxy_protocol_from:
        return matcher
    elsewhere = Predicate(not_matcher=matchers.is_sent_by((*settings.proxy_protocol_from, *networks), "proxies"))
    return matchers.match(elsewhere, matchers.choose(REFUSED), otherwise=OnMatch(matcher=matcher))


def guard_part(matcher: v3.Matcher, settings: Settings) -> v3.Matcher:
    """Nest a matcher as deeply as `guard_matcher` does.

    The caller can then merge the returned matcher into a result of `guard_matcher`.
    """
    return v3.Matcher(on_no_match=OnMatch(matcher=matcher)) if settings.proxy_protocol_from else matcher
