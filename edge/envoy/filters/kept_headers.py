"""Keeps a client's proxy headers, if an edge or a reserved domain permits them. This file does no I/O.

Proxy headers are headers that only proxies should set. The module `claims` has their patterns, and the filter of
`http_manager.build_client_headers` removes them. An earlier filter records the values of the headers that the virtual
host permits. After the removal, the virtual host adds these headers again.
"""

import re
from collections.abc import Iterable

from chalicelib.model.edges.headers import claims
from edge.envoy import parts, v3

_NOTES = "kept"  # the metadata namespace of the recorded values, which clients cannot write
_FILTER = "envoy.filters.http.header_to_metadata"
_MUTATION = "envoy.filters.http.header_mutation"
RECORDER = v3.HttpFilter(
    name=_FILTER, typed_config=parts.pack(v3.HeaderToMetadata())
)  # records the headers that the configuration of a virtual host lists


def set_host_config(host: v3.VirtualHost, names: Iterable[str]) -> None:
    """Permit the headers `names` in requests to a virtual host.

    Headers that `claims` does not list need no permission, because no filter removes them.
    """
    headers = [name for name in names if re.fullmatch(claims.REGEX, name) and not re.fullmatch(claims.OWN_REGEX, name)]
    if headers:
        mutations = v3.Mutations(request_mutations=map(_restore, headers))
        config = host.typed_per_filter_config
        config[_FILTER].Pack(v3.HeaderToMetadata(request_rules=map(_record, headers)), deterministic=True)
        config[_MUTATION].Pack(v3.HeaderMutationPerRoute(mutations=mutations), deterministic=True)


def _record(name: str) -> v3.HeaderToMetadata.Rule:
    value = v3.HeaderToMetadata.KeyValuePair(metadata_namespace=_NOTES, key=name, type=v3.HeaderToMetadata.STRING)
    return v3.HeaderToMetadata.Rule(header=name, on_header_present=value)


def _restore(name: str) -> v3.HeaderMutation:
    return v3.HeaderMutation(append=parts.set_header(name, f"%DYNAMIC_METADATA({_NOTES}:{name})%"))
