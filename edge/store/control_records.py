"""The records that control uses: gateways, certificates, edges, statuses and domain checks."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from chalicelib.model import (
    accounts,
    edge_status,
    edges,
    gateways,
    kinds,
    listening,
    looks,
    names,
    reservations,
    served,
    tls_certificates,
    tunnels,
)
from chalicelib.model.edge_status import EdgeStatus
from chalicelib.model.gateways import Gateway
from chalicelib.model.looks import Due
from chalicelib.model.proofs import Step
from chalicelib.model.reservations import Held
from chalicelib.model.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.tls_certificates import Sealed
from chalicelib.model.tunnels import Carried
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from edge.link.authority import KeyPair
from edge.process import log
from edge.store.errors import raises_unavailable


class ControlRecords:
    """The part of the store that control uses."""

    def __init__(self, tunnel_domain: str) -> None:
        self._tunnel_domain = tunnel_domain

    @raises_unavailable
    def list_gateways(self) -> list[tuple[Gateway, bool]]:
        return gateways.every()

    @raises_unavailable
    def list_tunnels(self, gateway: str) -> list[Carried]:
        return tunnels.carried_by(gateway)

    @raises_unavailable
    def list_certificates(self, account: str) -> list[Sealed]:
        return tls_certificates.of_account(account)

    @raises_unavailable
    def list_reservations(self, account: str, hosts: Iterable[str]) -> list[Held]:
        return reservations.held_for(account, hosts, self._tunnel_domain)

    @raises_unavailable
    def unseal_key_pair(self, sealed: Sealed) -> KeyPair:
        lines = base64.encodebytes(tls_certificates.private_key(sealed)).decode()
        return KeyPair(sealed.certificate.chain, f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n")

    @raises_unavailable
    def list_listening_edges(self) -> Mapping[tuple[str, str], int]:
        return {(it.account, it.id): it.revision for it in _read_items(filter(_is_valid_entry, listening.every()))}

    @raises_unavailable
    def read_edge(self, account: str, id: str) -> ServedEdge | None:
        records = edges.read_with_routes(account, id)
        if records is None:
            return None
        edge, domain = served.edge(*records), self._tunnel_domain
        hostports = tuple(it for it in edge.hostports if names.holds(records[0], it, domain))
        ports = hostports if edge.kind is kinds.TCP_EDGES else ()
        try:
            proxied = frozenset(it for it in ports if reservations.wants_proxy_protocol(account, it, domain))
        except reservations.Unreadable:
            return replace(edge, hostports=hostports, error=served.UNREADABLE)
        return replace(edge, hostports=hostports, proxied=proxied) if hostports or edge.error else None

    @raises_unavailable
    def is_account_active(self, account: str) -> bool:
        return accounts.is_switched_on(account)

    @raises_unavailable
    def read_parts(self, account: str, ids: Iterable[str]) -> list[ServedBackend | ServedAuthority]:
        return [
            served.part(it)
            for it in _read_items((account, id) for id in ids if kinds.of(id) is not kinds.OTHER_BACKENDS)
        ]

    @raises_unavailable
    def end_lapsed_tunnels(self, account: str) -> None:
        tunnels.end_lapsed(account)

    # Statuses of edges

    @raises_unavailable
    def announce_host(self, host: str, *, lease: int) -> None:
        edge_status.announce(host, lease=lease)

    @raises_unavailable
    def remove_lapsed_hosts(self, *, grace: int) -> None:
        edge_status.end_lapsed(grace=grace)

    @raises_unavailable
    def list_statuses(self, host: str) -> Mapping[tuple[str, str], EdgeStatus]:
        return edge_status.written(host)

    @raises_unavailable
    def write_status(self, account: str, edge: str, host: str, status: EdgeStatus) -> None:
        edge_status.write(account, edge, host, status)

    @raises_unavailable
    def remove_status(self, account: str, edge: str, host: str) -> None:
        edge_status.remove(account, edge, host)

    # Proofs of domains

    @raises_unavailable
    def due(self, now: int, most: int) -> list[Due]:
        return looks.due(now, most)

    @raises_unavailable
    def claim(self, due: Due, *, until: int) -> Due | None:
        return looks.claim(due, until=until)

    @raises_unavailable
    def holder(self, domain: str) -> Due | None:
        return looks.holder(domain)

    @raises_unavailable
    def record(self, due: Due, step: Step, loser: tuple[Due, Step] | None = None) -> bool:
        return looks.record(due, step, loser)


def _is_valid_entry(entry: tuple[str, str]) -> bool:
    """Return whether an entry of the list of edges is valid. Log other entries."""
    is_valid = listening.is_whole(*entry)
    if not is_valid:
        log.event("listing_unreadable", id=entry[1])
    return is_valid


def _read_items(entries: Iterable[tuple[str, str]]) -> Iterator[Item]:
    """Yield the existing items with these accounts and ids, including malformed ones."""
    records = table.records((items.scope(account, kinds.of(id).path), id) for account, id in entries)
    return (item for item in map(Item.from_record, records.values()) if item.is_live)
