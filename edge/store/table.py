"""The records of the API as the edge uses them: the table and the vault that the environment names."""

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

from chalicelib import domains, ids
from chalicelib.model import (
    accounts,
    bans,
    bindings,
    blocks,
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
from chalicelib.model import usage as used
from chalicelib.model.edge_status import EdgeStatus
from chalicelib.model.gateways import Gateway
from chalicelib.model.looks import Due
from chalicelib.model.proofs import Step
from chalicelib.model.reservations import Held, NotProved
from chalicelib.model.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.ssh import credentials, revoked
from chalicelib.model.tls_certificates import Sealed, ServedCertificate
from chalicelib.model.tunnels import AgentTunnel, BackendTunnel, Carried, Usage
from chalicelib.storage import aws, change_log, decoding, items, table
from chalicelib.storage.change_log import Change, Place
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken
from edge.link.authority import Authority, KeyPair
from edge.process import log
from edge.process.settings import SettingError, Settings
from edge.store import link_authority
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    TooManyTunnels,
    Unavailable,
)

P = ParamSpec("P")
R = TypeVar("R")


def connect(settings: Settings) -> "TableStore":
    """Return the store; raise SettingError when it cannot be used."""
    try:
        gateways.every()
        names.check_settings_of(settings.tunnel_domain, os.environ.get("TCP_PORTS", "").strip())
    except aws.AwsError as error:
        raise SettingError(
            f"The store cannot be used ({error.code}): start make run first, or name another with AWS_ENDPOINT_URL."
        ) from None
    except names.OtherSettingsError as error:
        raise SettingError(str(error)) from None
    return TableStore(settings.region, settings.tunnel_domain)


def _translated(ask: Callable[P, R]) -> Callable[P, R]:
    """Return the same call, which raises Unavailable if the store or what it must read whole cannot be used."""

    @wraps(ask)
    def asked(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return ask(*arguments, **named)
        except aws.AwsError as error:
            raise Unavailable(error.code) from None
        except MalformedRecord as malformed:
            log.event(decoding.EVENT, **malformed.facts)
            raise Unavailable(decoding.EVENT) from None

    return asked


class TableStore:
    """Implements edge.store.records.Store."""

    def __init__(self, region: str, tunnel_domain: str) -> None:
        self._region, self._tunnel_domain = region, tunnel_domain

    # For both

    @_translated
    def link_authority(self) -> Authority:
        return link_authority.read_or_make()

    @_translated
    def list_changes(self, since: float) -> list[Change]:
        return change_log.since(since)

    @_translated
    def read_current(self, place: Place) -> Gateway | Carried | ServedCertificate | Held | None:
        account, _, path = place.scope.partition("#")
        if place.scope == tunnels.GATEWAYS:
            return gateways.read(place.id)
        if path == kinds.TUNNELS.path:
            return tunnels.read(account, place.id)
        if path == kinds.TLS_CERTIFICATES.path:
            found = table.find(place.scope, place.id)
            return ServedCertificate.of(found) if found else None
        if path == kinds.RESERVED_DOMAINS.path:
            found = table.find_any(place.scope, place.id)
            return Held.of(found) if found else None
        return None

    # For the gateway

    @_translated
    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        found = credentials.find_by_fingerprint(fingerprint)
        return Grant(found.account, found.id, tuple(found.acl)) if found else None

    @_translated
    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        found = revoked.find_certificate(authority, key_id)
        return Grant(found.account, found.id, ()) if found else None

    @_translated
    def refresh_grant(self, grant: Grant) -> Grant | None:
        if kinds.of(grant.credential) is kinds.SSH_USER_CERTIFICATES:
            return grant if revoked.read_certificate(grant.account, grant.credential) else None
        found = credentials.read(grant.account, grant.credential)
        return Grant(found.account, found.id, tuple(found.acl)) if found else None

    @_translated
    def open(self, opening: Opening, *, lease: int, most: int) -> Carried:
        account, name = opening.grant.account, opening.name
        proof = self._proof(opening)
        if name and not proof and accounts.may_bind_reserved_alone(account) and not names.is_reserved(account, name):
            raise NameNotReserved
        if len(tunnels.end_lapsed(account)) >= most:
            raise TooManyTunnels
        id = self._opened(opening, lease, proof)
        try:
            if len(tunnels.online(account)) > most:  # others were opened at the same moment
                raise TooManyTunnels
        except (TooManyTunnels, aws.AwsError):
            with suppress(aws.AwsError):
                tunnels.close_tunnel(account, id, gateway=opening.gateway)
            raise
        how = (opening.proto, opening.proxy_protocol)
        return Carried(account, id, opening.gateway, name, 0, dict(opening.labels), *how)

    def _proof(self, opening: Opening) -> Held | None:
        """Return the reservation that lets an account bind a name, None where none is needed; raise NameNotProved."""
        name = opening.name
        if not name or self._is_ours(name):
            return None
        held = reservations.proving(name, self._tunnel_domain)
        if held is None or held.account != opening.grant.account:
            raise NameNotProved
        return held

    def _opened(self, opening: Opening, lease: int, proof: Held | None) -> str:
        """Open a tunnel; end that of another account where the name is proved to be this one's."""
        account, name = opening.grant.account, opening.name
        checks = [reservations.still_proved(proof)] if proof else []
        try:
            return tunnels.open_tunnel(account, self._tunnel(opening), lease=lease, name=name, checks=checks)
        except tunnels.EdgeHasName:
            raise NameOfEdge from None
        except NotProved:
            raise NameNotProved from None
        except Taken:
            if proof and tunnels.end_other(account, name):
                return self._opened(opening, lease, proof)
            raise (NameBanned if tunnels.is_banned(name) else NameTaken) from None

    @_translated
    def is_reserved(self, account: str, name: str) -> bool:
        return not self._is_ours(name) or names.is_reserved(account, name)

    @_translated
    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        try:
            return reservations.wants_proxy_protocol(account, name, self._tunnel_domain)
        except reservations.Unreadable:
            raise NameUnreadable from None

    @_translated
    def free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        return reservations.free_address(account, addresses)

    def _is_ours(self, name: str) -> bool:
        """Tell whether a name lies below TUNNEL_DOMAIN; so do the addresses of all ports."""
        return domains.is_below(name.partition(":")[0], self._tunnel_domain)

    def _tunnel(self, opening: Opening) -> AgentTunnel | BackendTunnel:
        common = {
            "tunnel_session": opening.session,
            "region": self._region,
            "forwards_to": opening.forwards_to,
            "gateway": opening.gateway,
            "credential": opening.grant.credential,
            "address": opening.address,
            "client": opening.client,
        }
        if opening.labels:
            return BackendTunnel(**common, labels=dict(opening.labels))
        endpoint = ids.new(kinds.ENDPOINTS.prefix)
        return AgentTunnel(
            **common,
            endpoint=endpoint,
            proto=opening.proto,
            public_url=opening.url,
            proxy_protocol=opening.proxy_protocol,
        )

    @_translated
    def renew(self, carried: Sequence[Carried], *, lease: int) -> frozenset[str]:
        refused = bindings.refused(carried, self._tunnel_domain)
        return refused | tunnels.renew_leases([it for it in carried if it.id not in refused], lease=lease)

    @_translated
    def close(self, tunnel: Carried, usage: Usage) -> None:
        tunnels.close_tunnel(tunnel.account, tunnel.id, gateway=tunnel.gateway, usage=usage)

    @_translated
    def write_usage(self, account: str, hour: str, gateway: str, usage: Usage) -> None:
        used.write(account, hour, gateway, usage)

    @_translated
    def record_refusal(self, tunnel: Carried, reason: str) -> None:
        tunnels.note_refusal(tunnel, reason)

    @_translated
    def read_refusal(self, tunnel: Carried) -> str:
        return tunnels.refusal(tunnel)

    @_translated
    def list_blocked_networks(self) -> list[str]:
        return [network for network, _ in blocks.every()]

    @_translated
    def list_banned_patterns(self) -> list[str]:
        return bans.patterns()

    @_translated
    def list_banned_names(self) -> list[str]:
        return [*(name for name in tunnels.banned_names() if ":" not in name), *bans.patterns()]

    @_translated
    def announce_gateway(self, gateway: Gateway, *, lease: int) -> None:
        gateways.announce(gateway, lease=lease)

    @_translated
    def withdraw_gateway(self, gateway: str) -> None:
        gateways.withdraw(gateway)

    # For control

    @_translated
    def list_gateways(self) -> list[tuple[Gateway, bool]]:
        return gateways.every()

    @_translated
    def list_tunnels(self, gateway: str) -> list[Carried]:
        return tunnels.carried_by(gateway)

    @_translated
    def list_certificates(self, account: str) -> list[Sealed]:
        return tls_certificates.of_account(account)

    @_translated
    def list_reservations(self, account: str, hosts: Iterable[str]) -> list[Held]:
        return reservations.held_for(account, hosts, self._tunnel_domain)

    @_translated
    def unseal_key_pair(self, sealed: Sealed) -> KeyPair:
        lines = base64.encodebytes(tls_certificates.private_key(sealed)).decode()
        return KeyPair(sealed.certificate.chain, f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n")

    @_translated
    def list_listening_edges(self) -> Mapping[tuple[str, str], int]:
        return {(it.account, it.id): it.revision for it in _each(filter(_names_an_edge, listening.every()))}

    @_translated
    def read_edge(self, account: str, id: str) -> ServedEdge | None:
        found = edges.read_with_routes(account, id)
        if found is None:
            return None
        edge = served.edge(*found)
        held = tuple(it for it in edge.hostports if names.holds(found[0], it, self._tunnel_domain))
        reserved = held if edge.kind is kinds.TCP_EDGES else ()
        try:
            proxied = frozenset(it for it in reserved if self.wants_proxy_protocol(account, it))
        except NameUnreadable:
            return replace(edge, hostports=held, error=served.UNREADABLE)
        return replace(edge, hostports=held, proxied=proxied) if held or edge.error else None

    @_translated
    def is_account_active(self, account: str) -> bool:
        return accounts.is_switched_on(account)

    @_translated
    def read_parts(self, account: str, ids: Iterable[str]) -> list[ServedBackend | ServedAuthority]:
        return [
            served.part(it) for it in _each((account, id) for id in ids if kinds.of(id) is not kinds.OTHER_BACKENDS)
        ]

    @_translated
    def end_lapsed_tunnels(self, account: str) -> None:
        tunnels.end_lapsed(account)

    # For the statuses of edges

    @_translated
    def announce_host(self, host: str, *, lease: int) -> None:
        edge_status.announce(host, lease=lease)

    @_translated
    def remove_lapsed_hosts(self, *, grace: int) -> None:
        edge_status.end_lapsed(grace=grace)

    @_translated
    def list_statuses(self, host: str) -> Mapping[tuple[str, str], EdgeStatus]:
        return edge_status.written(host)

    @_translated
    def write_status(self, account: str, edge: str, host: str, status: EdgeStatus) -> None:
        edge_status.write(account, edge, host, status)

    @_translated
    def remove_status(self, account: str, edge: str, host: str) -> None:
        edge_status.remove(account, edge, host)

    # For the proof of domains

    @_translated
    def due(self, now: int, most: int) -> list[Due]:
        return looks.due(now, most)

    @_translated
    def claim(self, due: Due, *, until: int) -> Due | None:
        return looks.claim(due, until=until)

    @_translated
    def holder(self, domain: str) -> Due | None:
        return looks.holder(domain)

    @_translated
    def record(self, due: Due, step: Step, loser: tuple[Due, Step] | None = None) -> bool:
        return looks.record(due, step, loser)


def _names_an_edge(listed: tuple[str, str]) -> bool:
    """Tell whether an entry of the list of edges names one; the log tells of any other."""
    is_whole = listening.is_whole(*listed)
    if not is_whole:
        log.event("listing_unreadable", id=listed[1])
    return is_whole


def _each(named: Iterable[tuple[str, str]]) -> Iterator[Item]:
    """Yield the items of some accounts and ids that are there, also malformed ones."""
    found = table.records((items.scope(account, kinds.of(id).path), id) for account, id in named)
    return (item for item in map(Item.from_record, found.values()) if item.is_live)
