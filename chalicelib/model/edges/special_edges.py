"""The entries of edges in the list of special names."""

from collections.abc import Mapping

from chalicelib.model.base import kinds
from chalicelib.model.edges.modules import UPSTREAM
from chalicelib.model.names import listed_edges, special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records.items import Item

_DEFAULT_VERSIONS = (None, "", "1.2")  # of TLS


def list_edge(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that changes the entry of an edge. It is empty if the entry stays the same."""
    old, new = (_special_hostports(item) if item else () for item in (before, after))
    if new == old:
        return []
    if after and new:
        entry = SpecialEntry(SpecialOwner(after.account, after.id), new)
        return [special_names.change(entry) if old else special_names.add(entry)]
    return [special_names.remove(SpecialOwner(before.account, before.id))] if before else []


def _special_hostports(edge: Item) -> tuple[str, ...]:
    """Return the hostports of an edge if they are special, or none."""
    if edge.path == kinds.HTTPS_EDGES.path and not edge.malformed and edge.body.get("terminate_at") != UPSTREAM:
        authorities, termination = edge.modules.get("mutual_tls"), edge.modules.get("tls_termination")
        if _is_disabled(authorities) and _has_default_version(termination):
            return ()
    return tuple(listed_edges.hostports(edge))


def _is_disabled(module: object) -> bool:
    return module is None or (isinstance(module, Mapping) and module.get("enabled") is False)


def _has_default_version(termination: object) -> bool:
    """Return whether a module requires the default TLS version. False for a malformed one."""
    is_default = isinstance(termination, Mapping) and termination.get("min_version") in _DEFAULT_VERSIONS
    return is_default or _is_disabled(termination)
