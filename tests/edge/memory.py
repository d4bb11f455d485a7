"""A store in memory, for the gateway and control alone: tests/edge/store/test_store.py tries it beside the real one."""

import math
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from chalicelib import clock, domains
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_status import EdgeStatus, Report, Reports
from chalicelib.model.edges.served import ServedEdge, ServedPart, host_of
from chalicelib.model.names import base_names, name_keys, proofs, reservations, special_names
from chalicelib.model.names.operator_certificate import OpenedCertificate
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.serving import edge_plans, edge_states
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import Change, Place
from edge.link import authority
from edge.link.authority import Authority, KeyPair
from edge.store import link_authority as stored_authority
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameTaken,
    Opening,
    PolicyUnknown,
    Successor,
    TooManyTunnels,
    Unavailable,
)


@dataclass
class Memory:
    """Implements edge.records.Store; its fields are what a test arranges and looks at."""

    keys: dict[str, Grant] = field(default_factory=dict)
    signed: dict[tuple[str, str], Grant] = field(default_factory=dict)
    uploaded: dict[str, tuple[ServedCertificate, KeyPair]] = field(default_factory=dict)
    edges: dict[str, ServedEdge] = field(default_factory=dict)
    led_to: dict[str, ServedPart] = field(default_factory=dict)
    hosts: dict[str, float] = field(default_factory=dict)  # ends of leases
    operator_certificate: OpenedCertificate | None = None
    challenges: dict[str, PendingChallenge] = field(default_factory=dict)  # by domain
    statuses: dict[tuple[str, str, str], Report] = field(default_factory=dict)  # by host, account and edge
    trials: dict[tuple[str, str], Report] = field(default_factory=dict)  # by account and edge
    changed: dict[str, datetime] = field(default_factory=dict)  # times of the last changes of edges
    told: list[tuple[str, Report | None]] = field(default_factory=list)  # each report that was written, by edge
    log: list[Change] = field(default_factory=list)
    banned_names: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)  # that are blocked
    patterns: set[str] = field(default_factory=set)  # of names that are banned
    off: set[str] = field(default_factory=set)  # accounts that are switched off
    reserved: dict[str, str] = field(default_factory=dict)  # accounts, by the names that are theirs
    managed_apps: set[str] = field(default_factory=set)  # providers with an application of the operator
    sign_in_keys: list[Mapping[str, str]] = field(default_factory=list)  # public keys of session tokens
    visited: set[str] = field(default_factory=set)  # reserved names of which upstreams read the PROXY protocol
    held: dict[str, ServedReservation] = field(default_factory=dict)  # reserved domains by id
    addresses: dict[str, tuple[str, ServedAddress]] = field(default_factory=dict)  # their accounts too, by host:port
    limited: set[str] = field(default_factory=set)  # accounts that may have no other names
    up: dict[str, Gateway] = field(default_factory=dict)
    swept: dict[str, float] = field(default_factory=dict)  # ends of claims to sweep gateways
    clock_skew: int = 5
    online: dict[str, tuple[ServedTunnel, Opening]] = field(default_factory=dict)
    used: dict[str, Traffic] = field(default_factory=dict)  # of the tunnels that their gateways closed
    refusals: dict[str, str] = field(default_factory=dict)  # by tunnel
    bill: dict[tuple[str, str, str], Traffic] = field(default_factory=dict)  # by account, hour and gateway
    authority: Authority = field(default_factory=lambda: authority.make("link"))
    tunnel_domain: str = "tunnels.localhost"
    tcp_ports: range = range(20_000, 40_000)
    taken: int = 0  # of the next names that are asked for, so many are somebody's
    unlisted: set[str] = field(default_factory=set)  # edges without an entry in the list of special names
    is_away: bool = False
    listing_seconds: float = 0  # that it takes to list the special names
    silent: set[str] = field(default_factory=set)  # names that it does not renew in time
    unreachable: set[str] = field(default_factory=set)  # accounts whose edges it cannot read now
    unreadable: set[str] = field(default_factory=set)  # accounts whose edges nobody can read
    delays: dict[str, float] = field(default_factory=dict)  # seconds that it takes to read edges of an account
    slow: dict[str, float] = field(default_factory=dict)  # seconds that it takes to open a tunnel of an account
    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0

    def link_authority(self) -> Authority:
        return self.authority

    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        self.reach()
        return self.keys.get(fingerprint)

    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        self.reach()
        return self.signed.get((authority, key_id))

    def refresh_grant(self, grant: Grant) -> Grant | None:
        self.reach()
        known = [*self.keys.values(), *self.signed.values()]
        return next((found for found in known if found.credential == grant.credential), None)

    def open(self, opening: Opening, *, most: int) -> ServedTunnel:
        self.reach()
        time.sleep(self.slow.get(opening.grant.account, 0))
        account, credential = opening.grant.account, opening.grant.credential
        with self.lock:
            self._check(opening)
            live = [entry for entry in self.online.values() if self.is_online(entry[0])]
            if sum(it.account == account for it, _ in live) >= most:
                raise TooManyTunnels
            for it, other in [*self.online.values()]:
                if opening.name and it.name == opening.name:
                    if not self._has_ended(it) and (it.account, other.grant.credential) != (account, credential):
                        raise NameTaken
                    self._end(it.id)
            self.count += 1
            labels = dict(opening.labels)
            how = opening.proto, opening.proxy_protocol, opening.ip_policies
            new = ServedTunnel(account, f"tn_Test{self.count:023}", opening.gateway, opening.name, 0, labels, *how)
            self.online[new.id] = (new, opening)
            self.tell(account, kinds.TUNNELS.path, new.id, new.name)
            return new

    def is_reserved(self, account: str, name: str) -> bool:
        self.reach()
        return self.reserved.get(name) == account

    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        self.reach()
        return name in self.visited

    def find_free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        self.reach()
        taken = {it.name for it, _ in [*self.online.values()] if self.is_online(it)} | self.reserved.keys()
        free = sorted(set(addresses) - taken)
        return secrets.choice(free) if free else None

    def find_unpermitted(self, tunnels: Sequence[tuple[ServedTunnel, Opening]]) -> frozenset[str]:
        self.reach()
        if self.silent.intersection(record.name for record, _ in tunnels):
            raise Unavailable("away")
        unproved = {it.id for it, _ in tunnels if it.name and self._is_unproved(it.account, it.name)}
        return frozenset(
            unproved | {it.id for it, opening in tunnels if not opening.is_permitted(self.refresh_grant(opening.grant))}
        )

    def find_missing(self, tunnels: Sequence[ServedTunnel]) -> frozenset[str]:
        self.reach()
        return frozenset(it.id for it in tunnels) - self.online.keys()

    def is_online(self, tunnel: ServedTunnel) -> bool:
        """Return whether the gateway of a tunnel is live."""
        gateway = self.up.get(tunnel.gateway)
        return gateway is not None and gateway.is_live

    def find_successor(self, account: str, id: str) -> Successor | None:
        self.reach()
        tunnel, opening = self.online.get(id, (None, None))
        gateway = self.up.get(tunnel.gateway) if tunnel and tunnel.account == account else None
        if tunnel is None or opening is None or gateway is None or not gateway.is_live:
            return None
        return Successor(tunnel, opening.grant.credential, gateway)

    def write_usage(self, account: str, hour: str, gateway: str, usage: Traffic) -> None:
        self.reach()
        self.bill[account, hour, gateway] = usage

    def close(self, tunnel: ServedTunnel, usage: Traffic) -> None:
        self.reach()
        with self.lock:
            self.used[tunnel.id] = usage
            self._end(tunnel.id)

    def record_refusal(self, tunnel: ServedTunnel, reason: str) -> None:
        self.reach()
        if tunnel.id in self.online:
            self.refusals[tunnel.id] = reason
            self.tell(tunnel.account, kinds.TUNNELS.path, tunnel.id)

    def read_refusal(self, tunnel: ServedTunnel) -> str:
        self.reach()
        return self.refusals.get(tunnel.id, "")

    def list_blocked_networks(self) -> list[str]:
        self.reach()
        return sorted(self.networks)

    def list_banned_patterns(self) -> list[str]:
        self.reach()
        return sorted(self.patterns)

    def list_banned_names(self) -> list[str]:
        self.reach()
        return sorted(self.banned_names | self.patterns)

    def list_managed_apps(self) -> frozenset[str]:
        self.reach()
        return frozenset(self.managed_apps)

    def renew_sign_in_pair(self, link_authority: Authority) -> None:
        """Store the pair in the table, from which the sign-in service reads it."""
        stored_authority.renew_sign_in_pair(link_authority)

    def list_sign_in_keys(self) -> list[Mapping[str, str]]:
        self.reach()
        return [*self.sign_in_keys]

    def announce_gateway(self, gateway: Gateway, *, lease: int) -> bool:
        self.reach()
        if gateway.id in self.up:
            return False
        self._put_gateway(replace(gateway, lease=_end_of(lease)))
        return True

    def renew_gateway(self, gateway: str, *, lease: int) -> bool:
        self.reach()
        found = self.up.get(gateway)
        if found is None or not found.is_live:
            return False
        self.up[gateway] = replace(found, lease=_end_of(lease))
        return True

    def change_gateway(self, gateway: Gateway) -> bool:
        self.reach()
        found = self.up.get(gateway.id)
        if found is None or not found.is_live:
            return False
        self._put_gateway(replace(found, port=gateway.port, draining=gateway.draining))
        return True

    def withdraw_gateway(self, gateway: str) -> None:
        self.reach()
        if found := self.up.get(gateway):
            self._put_gateway(replace(found, ended=clock.seconds(), lease=clock.seconds()))
        if not self.list_tunnels(gateway):
            self.remove_gateway(gateway)

    def fence_gateway(self, gateway: str) -> bool:
        self.reach()
        found = self.up.get(gateway)
        if found is None or found.ended or not found.has_lapsed(self.clock_skew):
            return False
        self._put_gateway(replace(found, ended=clock.seconds()))
        return True

    def claim_sweep(self, gateway: str, *, seconds: int) -> bool:
        self.reach()
        found = self.up.get(gateway)
        if found is None or not found.ended or self.swept.get(gateway, 0) > time.time():
            return False
        self.swept[gateway] = time.time() + seconds
        return True

    def remove_gateway(self, gateway: str) -> None:
        self.reach()
        if self.up.pop(gateway, None):
            self.log.append(_change(Place(GATEWAYS, gateway)))

    def _put_gateway(self, gateway: Gateway) -> None:
        self.up[gateway.id] = gateway
        self.log.append(_change(Place(GATEWAYS, gateway.id)))

    def list_changes(self, since: float) -> list[Change]:
        self.reach()
        return [change for change in self.log if change.at > since]

    def list_gateways(self) -> list[Gateway]:
        self.reach()
        return [*self.up.values()]

    def list_tunnels(self, gateway: str) -> list[ServedTunnel]:
        self.reach()
        with self.lock:
            return [it for it, _ in self.online.values() if it.gateway == gateway][::-1]

    def list_special_names(self) -> list[SpecialEntry]:
        self.reach()
        time.sleep(self.listing_seconds)
        edges = [
            _entry(it, it.hostports) for it in [*self.edges.values()] if it.id not in self.unlisted and _is_special(it)
        ]
        with self.lock:
            bound = [it for it, _ in self.online.values() if it.proto in ("tcp", "tls")]
        return [*edges, *(_entry(it, (tunnels.hostport_of(it.name),)) for it in bound)]

    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        wanted = {*owners}
        return {it.owner: it for it in self.list_special_names() if it.owner in wanted}

    def list_hosts(self, account: str) -> frozenset[str]:
        self.reach(account)
        edges = {host for it in [*self.edges.values()] if it.account == account for host in it.hosts}
        return frozenset(edges | {it.name for it, _ in [*self.online.values()] if it.account == account and it.name})

    def end_tunnel(self, tunnel: ServedTunnel, gateway: Gateway) -> bool:
        self.reach()
        with self.lock:
            is_stored = tunnel.id in self.online
            self._end(tunnel.id)
            return is_stored

    def find_operator_certificate(self) -> OpenedCertificate | None:
        self.reach()
        return self.operator_certificate

    def find_challenge(self, domain: str) -> PendingChallenge | None:
        self.reach()
        return self.challenges.get(domain)

    def announce_host(self, host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
        self.reach()
        with self.lock:
            self.hosts[host] = time.time() + lease

    def remove_lapsed_hosts(self, *, grace: int) -> None:
        self.reach()
        with self.lock:
            gone = {host for host, end in self.hosts.items() if end + grace < time.time()}
            self.hosts = {host: end for host, end in self.hosts.items() if host not in gone}
            self.statuses = {place: it for place, it in self.statuses.items() if place[0] not in gone}

    def list_statuses(self, host: str) -> Mapping[tuple[str, str], Report]:
        self.reach()
        return {(account, edge): it for (by, account, edge), it in self.statuses.copy().items() if by == host}

    def write_status(self, account: str, edge: str, report: Report) -> None:
        self.reach(account)
        with self.lock:
            self.statuses[report.host, account, edge] = report
            self.told.append((edge, report))

    def remove_status(self, account: str, edge: str, host: str) -> None:
        self.reach(account)
        with self.lock:
            self.statuses.pop((host, account, edge), None)
            self.told.append((edge, None))

    def list_live_hosts(self) -> list[str]:
        self.reach()
        return [host for host, end in self.hosts.copy().items() if end > time.time()]

    def write_trial(self, account: str, edge: str, trial: Report) -> None:
        self.reach(account)
        with self.lock:
            self.trials[account, edge] = trial
            self.told.append((edge, trial))

    def remove_trial(self, account: str, edge: str) -> None:
        self.reach(account)
        with self.lock:
            self.trials.pop((account, edge), None)
            self.told.append((edge, None))

    # What a test looks at while others write

    def tunnels(self) -> list[tuple[ServedTunnel, Opening]]:
        """Return the tunnels that are online."""
        return list(self.online.values())

    def status(self, edge: str) -> EdgeStatus | None:
        """Return the status of an edge as the API decides it. It waits for the trial of the current revision."""
        from tests.edge.memory_resolver import MemoryResolver  # imports this module

        if not (found := self.edges.get(edge)):
            return None
        reported = {host: it for (host, _, id), it in self.statuses.copy().items() if id == edge}
        reports = Reports(len(self.list_live_hosts()), reported, self.trials.get((found.account, edge)))
        rejected = edge_states.list_rejected(reports, found.revision)
        resolver = MemoryResolver(self)
        resolver.refresh_gateways()
        records = replace(resolver.read_items(found.account, [edge], None), rejected=rejected)
        names = frozenset({self.tunnel_domain, f"*.{self.tunnel_domain}"})
        view = AccountView(records, Service(self.tunnel_domain, self.tcp_ports, names))
        if not (served := view.edges.get(edge)):
            return None
        plan = edge_plans.make_plan(served, view, clock.now())
        status = edge_states.decide(plan, view, reports, self.changed[edge], clock.now()).status
        return status if status.revision else None

    # What a test does in the place of the issuer and the API

    def challenge(self, domain: str, token: str, answer: str) -> None:
        """Publish the answer of a challenge."""
        self.challenges[domain] = PendingChallenge(token, answer)
        self.log.append(_change(Place(f"{challenge_records.PREFIX}{domain}", domain)))

    def reserve(self, held: ServedReservation) -> None:
        """Keep a reserved domain, or what has become of it."""
        self.held[held.id] = held
        self.tell(held.account, kinds.RESERVED_DOMAINS.path, held.id, held.domain)

    def reserve_address(self, account: str, name: str, address: ServedAddress) -> None:
        """Keep a reserved address, host:port."""
        self.addresses[name] = account, address
        self.tell(account, kinds.RESERVED_ADDRS.path, name)

    def upload(self, certificate: ServedCertificate, pair: KeyPair) -> None:
        """Keep a certificate with its key."""
        self.uploaded[certificate.id] = certificate, pair
        self.tell(certificate.account, kinds.TLS_CERTIFICATES.path, certificate.id)

    def keep(self, value: ServedEdge | ServedPart) -> None:
        """Keep an edge, or what one leads to."""
        if isinstance(value, ServedEdge):
            self.edges[value.id], self.changed[value.id] = value, clock.now()
        else:
            self.led_to[value.id] = value
        self.tell(value.account, kinds.of(value.id).path, value.id, *_hosts_of(value))

    def forget(self, value: ServedEdge | ServedPart) -> None:
        """Delete an edge, or what one leads to."""
        self.edges.pop(value.id, None)
        self.led_to.pop(value.id, None)
        self.tell(value.account, kinds.of(value.id).path, value.id, *_hosts_of(value))

    def switch(self, account: str, *, on: bool) -> None:
        """Switch an account on or off."""
        self.off = self.off - {account} if on else self.off | {account}
        self.log.append(_change(Place("accounts", account)))

    def tell(self, account: str, path: str, id: str, *names: str) -> None:
        """Write a record of a change into the log, with the keys of its names.

        It names an entry of special names too, which may be unchanged.
        """
        has_entry = id not in self.unlisted and kinds.at(path) in (*kinds.EDGES, kinds.TUNNELS)
        entry = [special_names.find_place(SpecialOwner(account, id))] if has_entry else []
        keys = [key for name in names if name for key in self._keys(name)]
        self.log.append(_change(Place(items.scope(account, path), id), *entry, *keys))

    def _keys(self, name: str) -> list[Place]:
        host = host_of(name)
        if domains.is_below(host, self.tunnel_domain):
            return [name_keys.name_place(base_names.base_name_below(host, self.tunnel_domain))]
        return [name_keys.key_place(reservations.proved_key(host))]

    def clear(self) -> None:
        """Take all tunnels offline."""
        with self.lock:
            for id in list(self.online):
                self._end(id)

    def _has_ended(self, tunnel: ServedTunnel) -> bool:
        gateway = self.up.get(tunnel.gateway)
        return gateway is None or bool(gateway.ended) or gateway.has_lapsed(self.clock_skew)

    def _check(self, opening: Opening) -> None:
        account, name = opening.grant.account, opening.name
        if self.taken:
            self.taken -= 1
            raise NameTaken
        if any(getattr(self.led_to.get(it), "account", "") != account for it in opening.ip_policies):
            raise PolicyUnknown
        if name in self.banned_names:
            raise NameBanned
        if self.reserved.get(name, account) != account:
            raise NameTaken
        if name and self._is_unproved(account, name):
            raise NameNotProved
        if name and account in self.limited and name not in self.reserved:
            raise NameNotReserved

    def _is_unproved(self, account: str, name: str) -> bool:
        proved = {it.domain: it.account for it in [*self.held.values()] if it.is_proved}
        host = name.partition(":")[0]
        return not domains.is_below(host, self.tunnel_domain) and proofs.find_proving(name, proved) != account

    def _end(self, id: str) -> None:
        if it := self.online.pop(id, None):
            self.tell(it[0].account, kinds.TUNNELS.path, id, it[0].name)

    def reach(self, account: str = "") -> None:
        if account in self.delays:
            time.sleep(self.delays[account])
        if self.is_away or account in self.unreachable:
            raise Unavailable("away")
        if account in self.unreadable:
            raise ValueError(account)


def _entry(record: ServedEdge | ServedTunnel, hostports: Sequence[str]) -> SpecialEntry:
    return SpecialEntry(SpecialOwner(record.account, record.id), tuple(hostports))


def _hosts_of(value: ServedEdge | ServedPart) -> list[str]:
    return [*value.hosts] if isinstance(value, ServedEdge) else []


def _is_special(edge: ServedEdge) -> bool:
    if not edge.hostports:
        return False
    modules, is_https = edge.modules, edge.kind is kinds.HTTPS_EDGES
    termination = modules.values.get("tls_termination")
    version = termination.min_version if termination else None
    has_own_manager = bool(modules.values.get("mutual_tls")) or edge_plans.requires_sign_in(edge)
    is_normal = edge.terminate_at == "edge" and not has_own_manager and version in (None, "1.2")
    return bool(edge.error) or not (is_https and is_normal)


def _end_of(lease: int) -> int:
    """Return the second at which a lease ends, rounded up: a test's lease of a second or two is not a part of it."""
    return math.ceil(time.time() + lease) if lease else 0


def _change(*places: Place) -> Change:
    return Change(f"{int(time.time() * 1000):013}-{secrets.token_hex(8)}", places)
