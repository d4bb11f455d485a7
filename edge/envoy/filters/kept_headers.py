"""Request headers that an edge or a reserved domain accepts from visitors, although they are claims. Pure.

A filter records their values before claims are removed. The virtual host names them and adds them again.
"""

import re
from collections.abc import Iterable

from edge.envoy import parts
from edge.envoy.filters import claims
from edge.envoy.resources import Json

_NOTES = "kept"  # the metadata namespace of the recorded values, which clients cannot write
_FILTER = "envoy.filters.http.header_to_metadata"
_CONFIG = f"{parts.TYPE}.extensions.filters.http.header_to_metadata.v3.Config"
_MUTATION = "envoy.filters.http.header_mutation"
_MUTATIONS = f"{parts.TYPE}.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute"


def build_recorder() -> Json:
    """Return the filter that records the headers that a virtual host names."""
    return parts.extension(_FILTER, _CONFIG)


def build_host_config(names: Iterable[str]) -> dict[str, Json]:
    """Return the part of a virtual host that preserves the named headers that are claims."""
    found = [name for name in names if re.fullmatch(claims.REGEX, name) and not re.fullmatch(claims.OWN_REGEX, name)]
    if not found:
        return {}
    rules: list[Json] = [
        {"header": name, "on_header_present": {"metadata_namespace": _NOTES, "key": name, "type": "STRING"}}
        for name in found
    ]
    again: list[Json] = [
        {
            "append": {
                "header": {"key": name, "value": f"%DYNAMIC_METADATA({_NOTES}:{name})%"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        }
        for name in found
    ]
    return {
        "typed_per_filter_config": {
            _FILTER: {"@type": _CONFIG, "request_rules": rules},
            _MUTATION: {"@type": _MUTATIONS, "mutations": {"request_mutations": again}},
        }
    }
