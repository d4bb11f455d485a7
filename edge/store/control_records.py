"""The records that control uses: gateways, certificates, edges, statuses and domain checks."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status, edges, served
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names import base_names, listed_edges, proof_checks, reservations, special_names
from chalicelib.model.names.proof_checks import DueCheck
from chalicelib.model.names.proofs import ProofChange
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.tls import tls_certificates
from chalicelib.model.tls.tls_certificates import SealedCertificate
from chalicelib.model.tunnels import ends, gateways, online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import Place
from chalicelib.storage.records.items import Item
from edge.link.authority import KeyPair
from edge.process import log
from edge.store.errors import raises_unavailable


class ControlRecords:
    """The part of the store that control uses."""

    def __init__(self, tunnel_domain: str) -> None:
        self._tunnel_domain = tunnel_domain

    @raises_unavailable
    def list_gateways(self) -> list[tuple[Gateway, bool]]:
        return gateways.list_gateways()

    @raises_unavailable
    def list_tunnels(self, gateway: str) -> list[ServedTunnel]:
        return online_tunnels.tunnels_of_gateway(gateway)

    @raises_unavailable
    def list_certificates(self, account: str) -> list[SealedCertificate]:
        return tls_certificates.read_certificates(account)

    @raises_unavailable
    def list_reservations(self, account: str, hosts: Iterable[str]) -> list[ServedReservation]:
        return reservations.reservations_for(account, hosts, self._tunnel_domain)

    @raises_unavailable
    def unseal_key_pair(self, sealed: SealedCertificate) -> KeyPair:
        lines = base64.encodebytes(tls_certificates.open_private_key(sealed)).decode()
        return KeyPair(sealed.certificate.chain, f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n")

    @raises_unavailable
    def list_listening_edges(self) -> Mapping[tuple[str, str], int]:
        return {(it.account, it.id): it.revision for it in _read_items(filter(_is_valid_entry, listed_edges.every()))}

    @raises_unavailable
    def list_special_names(self) -> list[SpecialEntry]:
        every = list(special_names.every())
        for place in (it for it in every if isinstance(it, Place)):
            log.event("listing_unreadable", id=place.id)
        return [it for it in every if isinstance(it, SpecialEntry)]

    @raises_unavailable
    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        return special_names.read(owners)

    @raises_unavailable
    def list_hosts(self, account: str) -> frozenset[str]:
        edges = (
            it for kind in (kinds.HTTPS_EDGES, kinds.TLS_EDGES) for it in table.every(items.scope(account, kind.path))
        )
        hosts = {hostport.removesuffix(":443") for it in edges for hostport in listed_edges.hostports(it)}
        return frozenset(hosts | {ends.host_name(it) for it in online_tunnels.list_online(account)} - {""})

    @raises_unavailable
    def read_edge(self, account: str, id: str) -> ServedEdge | None:
        records = edges.read_with_routes(account, id)
        if records is None:
            return None
        edge, domain = served.decode_edge(*records), self._tunnel_domain
        hostports = tuple(it for it in edge.hostports if base_names.has_keys_of(records[0], it, domain))
        ports = hostports if edge.kind is kinds.TCP_EDGES else ()
        try:
            proxied = frozenset(it for it in ports if reservations.uses_proxy_protocol(account, it, domain))
        except reservations.UnreadableReservation:
            return replace(edge, hostports=hostports, error=served.UNREADABLE)
        return replace(edge, hostports=hostports, proxied=proxied) if hostports or edge.error else None

    @raises_unavailable
    def is_account_active(self, account: str) -> bool:
        return accounts.is_account_active(account)

    @raises_unavailable
    def read_parts(self, account: str, ids: Iterable[str]) -> list[ServedBackend | ServedAuthority]:
        return [
            served.decode_part(it)
            for it in _read_items((account, id) for id in ids if kinds.of(id) is not kinds.OTHER_BACKENDS)
        ]

    @raises_unavailable
    def end_lapsed_tunnels(self, account: str) -> None:
        online_tunnels.remove_expired(account)

    # Statuses of edges

    @raises_unavailable
    def announce_host(self, host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
        edge_status.announce(host, operator_names, lease=lease)

    @raises_unavailable
    def remove_lapsed_hosts(self, *, grace: int) -> None:
        edge_status.remove_expired_hosts(grace=grace)

    @raises_unavailable
    def list_statuses(self, host: str) -> Mapping[tuple[str, str], Report]:
        return edge_status.read_statuses(host)

    @raises_unavailable
    def write_status(self, account: str, edge: str, report: Report) -> None:
        edge_status.write(account, edge, report)

    @raises_unavailable
    def remove_status(self, account: str, edge: str, host: str) -> None:
        edge_status.remove(account, edge, host)

    @raises_unavailable
    def list_live_hosts(self) -> list[str]:
        return edge_status.list_hosts()

    @raises_unavailable
    def write_trial(self, account: str, edge: str, trial: Report) -> None:
        edge_status.write_trial(account, edge, trial)

    @raises_unavailable
    def remove_trial(self, account: str, edge: str) -> None:
        edge_status.remove_trial(account, edge)

    # Proofs of domains

    @raises_unavailable
    def due(self, now: int, most: int) -> list[DueCheck]:
        return proof_checks.find_due(now, most)

    @raises_unavailable
    def claim(self, due: DueCheck, *, until: int) -> DueCheck | None:
        return proof_checks.claim(due, until=until)

    @raises_unavailable
    def holder(self, domain: str) -> DueCheck | None:
        return proof_checks.find_proved(domain)

    @raises_unavailable
    def record(self, due: DueCheck, step: ProofChange, loser: tuple[DueCheck, ProofChange] | None = None) -> bool:
        return proof_checks.record(due, step, loser)


def _is_valid_entry(entry: tuple[str, str]) -> bool:
    """Return whether an entry of the list of edges is valid. Log other entries."""
    is_valid = listed_edges.is_valid_entry(*entry)
    if not is_valid:
        log.event("listing_unreadable", id=entry[1])
    return is_valid


def _read_items(entries: Iterable[tuple[str, str]]) -> Iterator[Item]:
    """Yield the existing items with these accounts and ids, including malformed ones."""
    records = table.records((items.scope(account, kinds.of(id).path), id) for account, id in entries)
    return (item for item in map(Item.from_record, records.values()) if item.is_live)
