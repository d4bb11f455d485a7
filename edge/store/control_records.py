"""The records that control uses: gateways, certificates, edges, statuses and domain checks."""

from collections.abc import Iterable, Mapping

from chalicelib import clock
from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names import listed_edges, operator_certificate, proof_checks, special_names
from chalicelib.model.names.operator_certificate import OpenedCertificate
from chalicelib.model.names.proof_checks import DueCheck
from chalicelib.model.names.proofs import ProofChange
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.sign_in import managed_apps, signing_keys
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tunnels import ends, gateways, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import ItemKey
from edge.link.authority import Authority
from edge.process import log
from edge.store import link_authority as sign_in_pairs
from edge.store.records import AccountHosts


class ControlRecords:
    """The methods of the store that only control uses."""

    def __init__(self, tunnel_domain: str) -> None:
        self._tunnel_domain = tunnel_domain

    def list_gateways(self) -> list[Gateway]:
        """Return all gateways, including gateways that are not live."""
        return gateways.list_gateways()

    def fence_gateway(self, gateway: str) -> bool:
        """Mark a gateway as ended if its lease has lapsed. Return False if it is live or already marked."""
        return gateways.fence(gateway)

    def claim_sweep(self, gateway: str, *, seconds: int) -> bool:
        """Claim the task to end the tunnels of an ended gateway, for some `seconds`.

        Return False if another edge host has claimed this task.
        """
        return gateways.claim_sweep(gateway, seconds=seconds)

    def remove_gateway(self, gateway: str) -> None:
        """Delete the record of an ended gateway that has no tunnels left."""
        gateways.remove(gateway)

    def list_tunnels(self, gateway: str) -> list[ServedTunnel]:
        """Return the tunnels in the stored list of a gateway's tunnels. Some may be offline."""
        return online_tunnels.read_tunnels_of_gateway(gateway)

    def list_special_names(self) -> list[SpecialEntry]:
        """Return the stored list of special names, without malformed entries.

        A special name needs a separate listener or filter chain in Envoy. An entry has the names of an edge or tunnel.
        """
        every = list(special_names.read_entries())
        for item_key in (it for it in every if isinstance(it, ItemKey)):
            log.event("listing_unreadable", id=item_key.id)
        return [it for it in every if isinstance(it, SpecialEntry)]

    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        """Return the entries of the given edges and tunnels in the list of special names.

        An edge or tunnel without an entry is left out.
        """
        return special_names.read(owners)

    def list_hosts(self, account: str) -> AccountHosts:
        """Return the hosts of an account's HTTPS and TLS edges, and the names of its online tunnels."""
        edges = (
            it
            for kind in (kinds.HTTPS_EDGES, kinds.TLS_EDGES)
            for it in table.read_all(items.scope(account, kind.path))
        )
        hosts = {hostport.removesuffix(":443") for it in edges for hostport in listed_edges.hostports(it)}
        stored = online_tunnels.list_stored(account)
        names = {ends.host_name(it) for it in online_tunnels.keep_online(stored)} - {""}
        return AccountHosts(frozenset(hosts | names), frozenset(map(tunnels.gateway_of, stored)))

    def end_tunnel(self, tunnel: ServedTunnel, gateway: Gateway) -> bool:
        """End a tunnel of an ended gateway, with one audit event. Return False if another process has ended it."""
        return online_tunnels.end_of_gateway(tunnel, gateway)

    def list_managed_apps(self) -> frozenset[str]:
        """Return the identity providers with a managed OAuth application."""
        return frozenset(managed_apps.read_all())

    def renew_sign_in_pair(self, link_authority: Authority) -> None:
        """Store a new TLS key pair for sign-in services, at most once a day."""
        sign_in_pairs.renew_sign_in_pair(link_authority)

    def list_sign_in_keys(self) -> list[Mapping[str, str]]:
        """Return the public keys of session tokens, as entries of a key set (RFC 7517)."""
        return [it.public for it in signing_keys.list_published(signing_keys.read(), clock.seconds())]

    def find_operator_certificate(self) -> OpenedCertificate | None:
        """Return the certificate that the issuer obtained for the operator, or None."""
        return operator_certificate.read_opened()

    def find_challenge(self, domain: str) -> PendingChallenge | None:
        """Return the pending HTTP-01 challenge of a domain, or None."""
        return challenge_records.find(domain)

    # Statuses of edges: the methods that the protocol in `edge.control.statuses` requires

    def announce_host(self, host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
        """Mark an edge host as live for `lease` seconds."""
        edge_status.announce(host, operator_names, lease=lease)

    def remove_lapsed_hosts(self, *, grace: int) -> None:
        """Remove the records and reports of edge hosts `grace` seconds after the end of their lease."""
        edge_status.remove_expired_hosts(grace=grace)

    def list_statuses(self, host: str) -> Mapping[tuple[str, str], Report]:
        """Return an edge host's stored reports about edges, by account and edge.

        A report contains the parts of an edge that Envoy has rejected, with Envoy's error messages.
        """
        return edge_status.read_statuses(host)

    def write_status(self, account: str, edge: str, report: Report) -> None:
        """Store an edge host's report about an edge. Replaces an earlier report."""
        edge_status.write(account, edge, report)

    def remove_status(self, account: str, edge: str, host: str) -> None:
        """Remove an edge host's report about an edge."""
        edge_status.remove(account, edge, host)

    def list_live_hosts(self) -> list[str]:
        """Return the ids of the edge hosts that are live."""
        return edge_status.list_hosts()

    def write_trial(self, account: str, edge: str, trial: Report) -> None:
        """Store the result of a trial, in which an edge host has connected to an edge. Replaces an earlier result."""
        edge_status.write_trial(account, edge, trial)

    def remove_trial(self, account: str, edge: str) -> None:
        """Remove the stored result of the trial of a deleted edge."""
        edge_status.remove_trial(account, edge)

    # Proof checks of domains: the methods of the protocol `edge.control.proof_checks.ProofStore`

    def due(self, now: int, most: int) -> list[DueCheck]:
        return proof_checks.find_due(now, most)

    def claim(self, due: DueCheck, *, until: int) -> DueCheck | None:
        return proof_checks.claim(due, until=until)

    def holder(self, domain: str) -> DueCheck | None:
        return proof_checks.find_proved(domain)

    def record(self, due: DueCheck, step: ProofChange, loser: tuple[DueCheck, ProofChange] | None = None) -> bool:
        return proof_checks.record(due, step, loser)
