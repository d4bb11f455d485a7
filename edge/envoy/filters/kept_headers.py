"""Request headers that an edge or a reserved domain accepts from visitors, although they are claims. Pure.

A filter records their values before claims are removed. The virtual host names them and adds them again.
"""

import re
from collections.abc import Iterable, Mapping

from envoy.config.common.mutation_rules.v3.mutation_rules_pb2 import HeaderMutation
from envoy.extensions.filters.http.header_mutation.v3.header_mutation_pb2 import HeaderMutationPerRoute, Mutations
from envoy.extensions.filters.http.header_to_metadata.v3.header_to_metadata_pb2 import Config
from google.protobuf.any_pb2 import Any

from edge.envoy import json_parts, parts
from edge.envoy.filters import claims
from edge.envoy.resources import Json

_NOTES = "kept"  # the metadata namespace of the recorded values, which clients cannot write
_FILTER = "envoy.filters.http.header_to_metadata"
_MUTATION = "envoy.filters.http.header_mutation"


def build_recorder() -> Json:
    """Return the filter that records the headers that a virtual host names."""
    return json_parts.extension(_FILTER, f"{json_parts.TYPE}.extensions.filters.http.header_to_metadata.v3.Config")


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
