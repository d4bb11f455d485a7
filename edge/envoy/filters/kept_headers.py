"""Request headers that an edge or a reserved domain accepts from visitors, although they are claims. Pure.

A filter records their values before claims are removed. The virtual host names them and adds them again.
"""

import re
from collections.abc import Iterable, Mapping

from envoy.config.common.mutation_rules.v3.mutation_rules_pb2 import HeaderMutation
from envoy.extensions.filters.http.header_mutation.v3.header_mutation_pb2 import HeaderMutationPerRoute, Mutations
from envoy.extensions.filters.http.header_to_metadata.v3.header_to_metadata_pb2 import Config
from envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2 import HttpFilter
from google.protobuf.any_pb2 import Any

from edge.envoy import parts
from edge.envoy.filters import claims

_NOTES = "kept"  # the metadata namespace of the recorded values, which clients cannot write
_FILTER = "envoy.filters.http.header_to_metadata"
_MUTATION = "envoy.filters.http.header_mutation"
RECORDER = HttpFilter(name=_FILTER, typed_config=parts.pack(Config()))  # records the headers that a virtual host names


def build_host_config(names: Iterable[str]) -> Mapping[str, Any]:
    """Return the configuration of a virtual host that preserves the named headers that are claims."""
    found = [name for name in names if re.fullmatch(claims.REGEX, name)]
    if not found:
        return {}
    mutations = Mutations(request_mutations=map(_restore, found))
    return {
        _FILTER: parts.pack(Config(request_rules=map(_record, found))),
        _MUTATION: parts.pack(HeaderMutationPerRoute(mutations=mutations)),
    }


def _record(name: str) -> Config.Rule:
    value = Config.KeyValuePair(metadata_namespace=_NOTES, key=name, type=Config.STRING)
    return Config.Rule(header=name, on_header_present=value)


def _restore(name: str) -> HeaderMutation:
    return HeaderMutation(append=parts.set_header(name, f"%DYNAMIC_METADATA({_NOTES}:{name})%"))
