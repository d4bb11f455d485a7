"""The lists that control reads: special names, the hosts of an account, blocks and bans, and keys for sign-in."""

from collections.abc import Mapping

from chalicelib import clock
from chalicelib.model.base import kinds
from chalicelib.model.names import bans, listed_edges, special_names
from chalicelib.model.names.special_names import SpecialEntry
from chalicelib.model.sign_in import managed_apps, signing_keys
from chalicelib.model.tunnels import blocks, ends, name_bans, online_tunnels, tunnels
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import ItemKey
from edge.process import log
from edge.store.records import AccountHosts


def list_special_names() -> list[SpecialEntry]:
    """Return the stored list of special names. Log malformed entries, and leave them out.

    A special name is a host name that needs a separate listener or filter chain in Envoy. Each entry has the special
    names of an edge or tunnel.
    """
    entries = list(special_names.read_entries())
    for item_key in (entry for entry in entries if isinstance(entry, ItemKey)):
        log.event("listing_unreadable", id=item_key.id)
    return [entry for entry in entries if isinstance(entry, SpecialEntry)]


def list_hosts(account: str) -> AccountHosts:
    """Return the hosts of an account's HTTPS and TLS edges, and the names of its online tunnels."""
    scopes = (items.scope(account, kind.path) for kind in (kinds.HTTPS_EDGES, kinds.TLS_EDGES))
    edges = (edge for scope in scopes for edge in table.read_all(scope))
    hosts = {hostport.removesuffix(":443") for edge in edges for hostport in listed_edges.hostports(edge)}
    stored = online_tunnels.list_stored(account)
    names = {ends.host_name(tunnel) for tunnel in online_tunnels.keep_online(stored)} - {""}
    return AccountHosts(frozenset(hosts | names), frozenset(map(tunnels.gateway_of, stored)))


def read_blocks() -> tuple[list[str], list[str]]:
    """Return the networks that the operator has blocked, and the names and patterns that the operator has banned.

    Banned addresses (host:port) are left out.
    """
    networks = [network for network, _ in blocks.list_networks()]
    return networks, [*(name for name in name_bans.list_banned() if ":" not in name), *bans.list_patterns()]


def read_sign_in() -> tuple[list[Mapping[str, str]], frozenset[str]]:
    """Return the public keys of session tokens (RFC 7517), and the providers with a managed OAuth application."""
    keys = signing_keys.list_published(signing_keys.read(), clock.seconds())
    return [key.public for key in keys], frozenset(managed_apps.read_all())
