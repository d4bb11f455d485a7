"""Builds matchers that choose the filter chain of a connection. This file does no I/O.

If a matcher changes, connections stay open. If a filter chain changes, its connections are closed.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from edge.envoy import parts, v3

REFUSED = "refused"  # no filter chain has this name, so Envoy closes a connection for which a matcher chooses it
OnMatch: TypeAlias = v3.Matcher.OnMatch
Predicate: TypeAlias = v3.Matcher.MatcherList.Predicate
_SERVER_NAME = v3.XdsExtensionConfig(name="server_name", typed_config=parts.pack(v3.ServerNameInput()))
_BY_SERVER_NAME = v3.Matcher(matcher_tree=v3.Matcher.MatcherTree(input=_SERVER_NAME))
_PROTOCOLS = v3.XdsExtensionConfig(name="application_protocols", typed_config=parts.pack(v3.ApplicationProtocolInput()))
# Matches Envoy's list of the client's protocols, each in quotes, if TLS-ALPN-01 (RFC 8737) is among them.
_CHALLENGE = r".*'acme-tls/1'.*"


@lru_cache(1024)
def choose(chain: str) -> OnMatch:
    """Return the action that chooses a filter chain. If the chain does not exist, Envoy closes the connection."""
    return OnMatch(action=v3.XdsExtensionConfig(name="chain", typed_config=parts.pack(v3.StringValue(value=chain))))


@lru_cache(1024)
def refuse_challenges(chain: str) -> OnMatch:
    """Return the action that chooses a filter chain, except that it refuses TLS-ALPN-01 challenges."""
    return OnMatch(matcher=match(_has(_PROTOCOLS, _CHALLENGE), choose(REFUSED), otherwise=choose(chain)))


def match_server_name(name: str, on_match: OnMatch) -> v3.Matcher:
    """Return the matcher of connections with one server name."""
    matcher = parts.copy(_BY_SERVER_NAME)
    matcher.matcher_tree.exact_match_map.map[name].CopyFrom(on_match)
    return matcher


def match_server_names(regex: str, on_match: OnMatch, otherwise: OnMatch | None = None) -> v3.Matcher:
    """Return the matcher of connections with a server name that matches a regular expression."""
    return match(_has(_SERVER_NAME, regex), on_match, otherwise)


def match(predicate: Predicate, on_match: OnMatch, otherwise: OnMatch | None = None) -> v3.Matcher:
    """Return the matcher of connections that meet a condition."""
    matchers = [v3.Matcher.MatcherList.FieldMatcher(predicate=predicate, on_match=on_match)]
    return v3.Matcher(matcher_list=v3.Matcher.MatcherList(matchers=matchers), on_no_match=otherwise)


def comes_from(networks: Iterable[str], name: str) -> Predicate:
    """Return the condition that a visitor's address is in one of the networks."""
    return _address_in(networks, name, v3.SourceIPInput())


def is_sent_by(networks: Iterable[str], name: str) -> Predicate:
    """Return the condition that the peer of a connection has an address in one of the networks.

    The peer can be a proxy.
    """
    return _address_in(networks, name, v3.DirectSourceIPInput())


def _address_in(networks: Iterable[str], name: str, address: v3.SourceIPInput | v3.DirectSourceIPInput) -> Predicate:
    ranges = v3.Ip(cidr_ranges=parts.networks(networks), stat_prefix=name)
    return Predicate(
        single_predicate=Predicate.SinglePredicate(
            input=v3.XdsExtensionConfig(name="address", typed_config=parts.pack(address)),
            custom_match=v3.XdsExtensionConfig(name="ip", typed_config=parts.pack(ranges)),
        )
    )


def _has(text: v3.XdsExtensionConfig, regex: str) -> Predicate:
    expression = v3.XdsRegexMatcher(google_re2=v3.XdsRegexMatcher.GoogleRE2(), regex=regex)
    single = Predicate.SinglePredicate(input=text, value_match=v3.XdsStringMatcher(safe_regex=expression))
    return Predicate(single_predicate=single)
