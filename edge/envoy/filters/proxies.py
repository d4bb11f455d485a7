"""Trusted proxies in front of the public listeners, which send the visitor's address. Pure."""

from collections.abc import Mapping

from edge.envoy import parts
from edge.envoy.resources import Json
from edge.process.settings import Settings


def build_proxy_protocol() -> Json:
    """Return the filter that reads the PROXY protocol and refuses connections without it."""
    return parts.extension(
        "envoy.filters.listener.proxy_protocol",
        f"{parts.TYPE}.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    )


def choose_trial_source(settings: Settings) -> str:
    """Return the loopback address from which this host connects to its own names."""
    return "::1" if ":" in settings.host else "127.21.0.1"


def build_filters(settings: Settings) -> list[Json]:
    """Return the filters that read the visitor's address, none without proxies."""
    return [build_proxy_protocol()] if settings.proxy_protocol_from else []


def build_match(settings: Settings) -> dict[str, Json]:
    """Return the match of a filter chain that only accepts connections from the proxies."""
    ranges = parts.networks(settings.proxy_protocol_from)
    return {"filter_chain_match": {"direct_source_prefix_ranges": ranges}} if ranges else {}


def guard_matcher(matcher: Mapping[str, Json], refused: Json, settings: Settings, *others: str) -> Mapping[str, Json]:
    """Return a matcher that gives connections from other addresses the action `refused`.

    `others` are networks whose connections are accepted in addition to those of the proxies.
    """
    if not settings.proxy_protocol_from:
        return matcher
    proxy = parts.address_in((*settings.proxy_protocol_from, *others), "DirectSourceIPInput", "proxies")
    elsewhere: Json = {"predicate": {"not_matcher": proxy}, "on_match": {"action": refused}}
    return {"matcher_list": {"matchers": [elsewhere]}, **guard_part(matcher, settings)}


def guard_part(matcher: Mapping[str, Json], settings: Settings) -> Mapping[str, Json]:
    """Return a part of a matcher, nested as `guard_matcher` does."""
    return {"on_no_match": {"matcher": matcher}} if settings.proxy_protocol_from else matcher
