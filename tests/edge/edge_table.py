"""The store of an edge of the tests: the table of this process, what a test arranges in it, and its failures."""

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha1
from typing import Any, NoReturn

from botocore.exceptions import EndpointConnectionError

from chalicelib import clock
from chalicelib.model.audit import trail
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import EdgeStatus, Report
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.names import bans
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import account_reads, edge_plans, edge_states
from chalicelib.model.serving.account_item_keys import RecordsRequest
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import blocks, gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, ServedTunnel
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, table
from edge.link.authority import Authority, KeyPair
from edge.store import link_authority
from edge.store.records import Grant
from edge.store.table import Store
from tests.edge import served_records
from tests.edge.served_records import Value

DOMAIN = "tunnels.localhost"


def fail() -> NoReturn:
    """Let a call fail as if the store did not answer."""
    raise EndpointConnectionError(endpoint_url="http://store")


class EdgeTable(Store):
    """The table, as the edge uses it.

    `before` and `after` are called with the operation and the JSON of each call that the test itself does not make.
    `before` can delay the call or let it fail, `after` its answer. If `is_away`, all calls fail.
    """

    def __init__(self, tunnel_domain: str = DOMAIN, tcp_ports: range = range(20_000, 30_000)) -> None:
        super().__init__("local", tunnel_domain)
        self.service = Service(tunnel_domain, tcp_ports, frozenset({tunnel_domain, f"*.{tunnel_domain}"}))
        self.is_away = False
        self.before: Callable[[str, str], None] = _do_nothing
        self.after: Callable[[str, str], None] = _do_nothing
        self._calls = threading.local()
        self.grants: dict[str, Grant] = {}
        self.pairs: dict[str, KeyPair] = {}
        aws.client("dynamodb").meta.events.register("before-call.dynamodb", self._hear_call)
        aws.client("dynamodb").meta.events.register("after-call.dynamodb", self._hear_answer)

    @cached_property
    def authority(self) -> Authority:
        return link_authority.read_or_create()

    def _hear_call(self, model: Any, params: Mapping[str, Any], **_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            return
        if self.is_away:
            fail()
        self._calls.text = params["body"].decode()
        self.before(model.name, self._calls.text)

    def _hear_answer(self, model: Any, **_: object) -> None:
        if text := getattr(self._calls, "text", ""):  # the call was heard too
            self.after(model.name, text)

    def end(self) -> None:
        """Let no call fail any more."""
        aws.client("dynamodb").meta.events.unregister("before-call.dynamodb", self._hear_call)
        aws.client("dynamodb").meta.events.unregister("after-call.dynamodb", self._hear_answer)

    # What a test arranges

    def permit(self, fingerprint: str, grant: Grant) -> None:
        """Let a key sign in."""
        served_records.put_grant(fingerprint, grant)
        self.grants[fingerprint] = grant

    def revoke(self, *fingerprints: str) -> None:
        """Let keys not sign in any more, or none without arguments."""
        for fingerprint in fingerprints or [*self.grants]:
            served_records.remove_grant(self.grants.pop(fingerprint))

    def keep(self, value: Value) -> None:
        served_records.put(value)

    reserve = keep

    def forget(self, value: Value) -> None:
        served_records.remove(value)

    def reserve_address(self, account: str, name: str, address: ServedAddress) -> None:
        served_records.put_address(account, name, address)

    def reserve_name(self, account: str, name: str, *, proxy_protocol: bool = False) -> None:
        """Reserve a name below TUNNEL_DOMAIN, or an address (host:port)."""
        if ":" in name:
            self.reserve_address(account, name, ServedAddress(proxy_protocol))
            return
        id = f"rd_{int(sha1(name.encode()).hexdigest(), 16) % 10**27:027}"
        self.reserve(ServedReservation(account, id, name, True, proxy_protocol=proxy_protocol))

    def upload(self, certificate: ServedCertificate, pair: KeyPair) -> None:
        self.pairs[certificate.id] = pair
        served_records.put_certificate(certificate, pair)

    def remove_certificate(self, account: str, id: str) -> None:
        served_records.remove_certificate(account, id)

    def challenge(self, domain: str, token: str, answer: str) -> None:
        """Publish the answer of a challenge."""
        challenge_records.put(domain, PendingChallenge(token, answer))

    def block(self, *networks: str) -> None:
        """Block networks, and no others."""
        for network, _ in blocks.list_networks():
            blocks.unblock(network)
        for network in networks:
            blocks.block(network)

    def ban(self, *names: str) -> None:
        """Ban names and patterns, and no others."""
        for name in name_bans.list_banned():
            name_bans.lift_name_ban(name)
        for pattern in bans.list_patterns():
            bans.allow(pattern)
        for name in names:
            (bans.ban if "*" in name else name_bans.ban_name)(name)

    def reset(self) -> None:
        """Lift all blocks and bans, and let calls neither fail nor wait."""
        self.is_away, self.before, self.after = False, _do_nothing, _do_nothing
        self.block()
        self.ban()

    # What a test looks at while others write

    @property
    def online(self) -> dict[str, ServedTunnel]:
        """Return the tunnels in the lists of all gateways, by id."""
        return {
            tunnel.id: tunnel
            for gateway in gateways.list_gateways()
            for tunnel in online_tunnels.read_tunnels_of_gateway(gateway.id)
        }

    def tunnels(self) -> list[tuple[ServedTunnel, AgentTunnel | BackendTunnel]]:
        """Return the tunnels of live gateways, each with its record."""
        pairs = ((tunnel, table.find(tunnels.scope(tunnel.account), tunnel.id)) for tunnel in self.online.values())
        return [(tunnel, tunnels.decode(item)) for tunnel, item in pairs if item]

    @property
    def up(self) -> dict[str, Gateway]:
        return {gateway.id: gateway for gateway in gateways.list_gateways()}

    def status(self, edge: ServedEdge) -> EdgeStatus | None:
        """Return the status of an edge as the API decides it, or None."""
        item = table.find(items.scope(edge.account, edge.kind.path), edge.id)
        if item is None:
            return None
        reports = edge_status.read_reports(edge.account, edge.id)
        wanted_records = RecordsRequest(edge.account, ids=frozenset({edge.id}))
        complete_reads = account_reads.complete(wanted_records, {}, self._tunnel_domain)
        records = AccountRecords.of(wanted_records, complete_reads, edge_states.list_rejected(reports, item.revision))
        view = AccountView(records, self.service)
        if not (served_edge := view.edges.get(edge.id)):
            return None
        changed_at, now = clock.at(item.changed or 0), clock.now()
        status = edge_states.decide(edge_plans.make_plan(served_edge, view, now), view, reports, changed_at, now).status
        return status if status.revision else None

    def trial(self, account: str, edge: str) -> Report | None:
        """Return the report about the latest trial of an edge."""
        return edge_status.read_reports(account, edge).trial

    def reports(self) -> Mapping[tuple[str, str], Report]:
        """Return the reports of all live hosts, by account and edge or certificate."""
        return {
            item_key: status
            for host in edge_status.list_hosts()
            for item_key, status in edge_status.read_statuses(host).items()
        }

    def events(self, account: str, id: str, action: str) -> list[Mapping[str, str]]:
        """Return the details of the edge's audit events about a resource."""
        events = table.read_all(items.scope(account, trail.OF_THE_EDGE))
        return [
            event.body["details"]
            for event in events
            if (event.body["resource_id"], event.body["action"]) == (id, action)
        ]

    def clear(self) -> None:
        """Take all tunnels offline."""
        for tunnel in self.online.values():
            tunnels.close_tunnel(tunnel.account, tunnel.id)


def _do_nothing(operation: str, body: str) -> None:
    """Neither delay a call nor let it fail."""
