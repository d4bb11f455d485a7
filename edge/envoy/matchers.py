"""Matchers that choose the filter chain of a connection. Pure.

A change of a matcher keeps connections open. A change of a filter chain closes them.
"""

from collections.abc import Iterable
from typing import TypeAlias

from envoy.extensions.matching.common_inputs.network.v3.network_inputs_pb2 import (
    ApplicationProtocolInput,
    DirectSourceIPInput,
    ServerNameInput,
    SourceIPInput,
)
from envoy.extensions.matching.input_matchers.ip.v3.ip_pb2 import Ip
from google.protobuf.wrappers_pb2 import StringValue
from xds.core.v3.extension_pb2 import TypedExtensionConfig
from xds.type.matcher.v3.matcher_pb2 import Matcher
from xds.type.matcher.v3.regex_pb2 import RegexMatcher
from xds.type.matcher.v3.string_pb2 import StringMatcher

from edge.envoy import parts

REFUSED = "refused"  # no chain has this name: Envoy closes the connection
OnMatch: TypeAlias = Matcher.OnMatch
Predicate: TypeAlias = Matcher.MatcherList.Predicate
_SERVER_NAME = TypedExtensionConfig(name="server_name", typed_config=parts.pack(ServerNameInput()))
_PROTOCOLS = TypedExtensionConfig(name="application_protocols", typed_config=parts.pack(ApplicationProtocolInput()))
_CHALLENGE = r".*'acme-tls/1'.*"  # TLS-ALPN-01 (RFC 8737), in the quoted list of a client's protocols


def choose(chain: str) -> OnMatch:
    """Return the action that chooses a filter chain. Envoy closes the connection if it does not exist."""
    return OnMatch(action=TypedExtensionConfig(name="chain", typed_config=parts.pack(StringValue(value=chain))))


def refuse_challenges(chain: str) -> OnMatch:
    """Return the same, but refuse handshakes that offer a challenge's protocol."""
    return OnMatch(matcher=match(_has(_PROTOCOLS, _CHALLENGE), choose(REFUSED), otherwise=choose(chain)))


def match_server_name(name: str, on_match: OnMatch, otherwise: OnMatch | None = None) -> Matcher:
    """Return the matcher of one server name."""
    names = Matcher.MatcherTree.MatchMap(map={name: on_match})
    return Matcher(matcher_tree=Matcher.MatcherTree(input=_SERVER_NAME, exact_match_map=names), on_no_match=otherwise)


def match_server_names(regex: str, on_match: OnMatch, otherwise: OnMatch | None = None) -> Matcher:
    """Return the matcher of server names by an expression."""
    return match(_has(_SERVER_NAME, regex), on_match, otherwise)


def match(predicate: Predicate, on_match: OnMatch, otherwise: OnMatch | None = None) -> Matcher:
    """Return the matcher of connections that meet a condition."""
    matchers = [Matcher.MatcherList.FieldMatcher(predicate=predicate, on_match=on_match)]
    return Matcher(matcher_list=Matcher.MatcherList(matchers=matchers), on_no_match=otherwise)


def comes_from(networks: Iterable[str], name: str) -> Predicate:
    """Return the condition that a visitor's address is in one of the networks."""
    return _address_in(networks, name, SourceIPInput())


def is_sent_by(networks: Iterable[str], name: str) -> Predicate:
    """Return the same condition for the address of the connection itself, which can be a proxy's."""
    return _address_in(networks, name, DirectSourceIPInput())


def _address_in(networks: Iterable[str], name: str, address: SourceIPInput | DirectSourceIPInput) -> Predicate:
    ranges = Ip(cidr_ranges=parts.networks(networks), stat_prefix=name)
    return Predicate(
        single_predicate=Predicate.SinglePredicate(
            input=TypedExtensionConfig(name="address", typed_config=parts.pack(address)),
            custom_match=TypedExtensionConfig(name="ip", typed_config=parts.pack(ranges)),
        )
    )


def _has(text: TypedExtensionConfig, regex: str) -> Predicate:
    expression = RegexMatcher(google_re2=RegexMatcher.GoogleRE2(), regex=regex)
    single = Predicate.SinglePredicate(input=text, value_match=StringMatcher(safe_regex=expression))
    return Predicate(single_predicate=single)
