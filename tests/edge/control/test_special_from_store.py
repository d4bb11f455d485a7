"""Special names of the real store: what a start and a change read, and that the log names all that matters."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels import gateways, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import change_log
from edge.control.names.name_resolver import NameResolver
from edge.control.special import SpecialNames
from edge.control.special_account import Shared
from edge.process.settings import Settings
from edge.serving.special_serving import SpecialServing
from edge.store import control_records, threads
from edge.store.changes import Follower
from edge.store.records import Grant, Opening
from edge.store.table import Store
from tests import openssl
from tests.edge.control.special_fakes import Envoy
from tests.edge.envoy import messages
from tests.gateway_leases import set_lease
from tests.queries import calls
from tests.transports import Client

DOMAIN, PORT = "tunnels.localhost", "tunnels.localhost:20001"
SETTINGS = Settings(tcp_ports=range(20000, 20100))
GATEWAY = Gateway("gw-1", "192.0.2.1", 7000)


class Host:
    """The special names of one edge host that reads the real store."""

    def __init__(self) -> None:
        self.store, self.envoy = Store("local", DOMAIN), Envoy()
        gateways.announce(GATEWAY, lease=60)
        self.resolver = NameResolver(DOMAIN)
        self._runner, self._follower = asyncio.Runner(), Follower(change_log.read_since, time.time())
        serving = SpecialServing(SETTINGS, "PEM")
        service = Service(DOMAIN, SETTINGS.tcp_ports, frozenset({f"*.{DOMAIN}"}))
        self.special = SpecialNames(
            Shared(self.resolver, serving, self.envoy, control_records.list_hosts, threads.call, lambda: service),
        )

    def start(self) -> list[str]:
        """Load all special names. Return the calls of the store."""
        self._follower.read(time.time())
        self.resolver.refresh_gateways()
        with calls() as operations:
            self._runner.run(self.special.start(lambda _: None))
        return operations

    def follow(self) -> list[str]:
        """Apply what the log has. Return the calls of the store, without those that read the log and gateways."""
        item_keys = {item_key for change in self._follower.read(time.time()) for item_key in change.item_keys}
        item_keys |= self.resolver.refresh_gateways()
        with calls() as operations:
            self._runner.run(self._apply(item_keys))
        return operations

    async def _apply(self, item_keys: Any) -> None:
        self.special.apply(item_keys)
        for _ in range(2):
            await self.special.check()
            while self.special.is_busy:
                await asyncio.sleep(0.005)

    def add(self, entry: SpecialEntry) -> None:
        async def act() -> None:
            self.special.add(entry)
            await self._apply(())

        self._runner.run(act())

    def open(self, account: str, name: str, proto: Proto) -> ServedTunnel:
        opening = Opening(Grant(account, "sshcr_1", ()), GATEWAY.id, "ts_1", "192.0.2.9", name, "", proto=proto)
        return self.store.open(opening, most=10)

    def close(self) -> None:
        self._runner.close()


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def authority(admin: Client) -> str:
    authority_pair = openssl.issue("/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",))
    return str(admin.create("/certificate_authorities", {"ca_pem": authority_pair.certificate})["id"])


def mutual(admin: Client, name: str) -> dict[str, Any]:
    return {"hostports": [f"{name}.{DOMAIN}:443"], "mutual_tls": {"certificate_authority_ids": [authority(admin)]}}


def test_a_start_reads_the_list_and_the_accounts_in_it(host: Host, admin: Client, stranger: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    backend = {"backend": {"backend_id": group}}
    admin.create("/edges/https", mutual(admin, "mutual"))
    admin.create("/edges/https", {"hostports": [f"old.{DOMAIN}:443"], "tls_termination": {"min_version": "1.0"}})
    admin.create("/edges/tls", {"hostports": [f"tls.{DOMAIN}:443"], **backend})
    admin.create("/edges/tcp", {"hostports": [f"tcp.{DOMAIN}:20005"], **backend})
    host.open(admin.account, PORT, "tcp")
    host.open(admin.account, f"bytes.{DOMAIN}", "tls")
    for number in range(10):
        stranger.create("/edges/https", {"hostports": [f"n{number}.{DOMAIN}:443"]})
    operations = host.start()
    hosts = {f"{name}.{DOMAIN}" for name in ("mutual", "old", "tls", "bytes")}
    assert host.envoy.names == {*hosts, "port/20001", "port/20005"}
    assert operations[:16] == ["Query"] * 16
    assert len(operations) <= 16 + 12


def test_an_account_without_special_names_costs_a_host_nothing(host: Host, admin: Client) -> None:
    host.start()
    admin.create("/edges/https", {"hostports": [f"normal.{DOMAIN}:443"]})
    host.open(admin.account, f"site.{DOMAIN}", "https")
    assert host.follow() == []


def test_special_names_follow_each_change(host: Host, admin: Client) -> None:
    host.start()
    edge = admin.create("/edges/https", mutual(admin, "mutual"))["id"]
    path = f"/edges/https/{edge}"
    host.follow()
    assert host.envoy.names == {f"mutual.{DOMAIN}"}
    assert host.special.plan_of(edge)
    admin.delete(f"{path}/mutual_tls")
    host.follow()
    assert host.envoy.names == set()
    admin.put(f"{path}/tls_termination", {"min_version": "1.3"})
    host.follow()
    assert host.envoy.names == {f"mutual.{DOMAIN}"}
    admin.patch(path, {"hostports": [f"moved.{DOMAIN}:443"]})
    host.follow()
    assert host.envoy.names == {f"moved.{DOMAIN}"}
    operator.main(["accounts", "disable", admin.account])
    host.follow()
    assert host.envoy.names == set()
    operator.main(["accounts", "enable", admin.account])
    host.follow()
    assert host.envoy.names == {f"moved.{DOMAIN}"}


def test_an_authority_that_is_deleted_closes_the_name(host: Host, admin: Client) -> None:
    body = mutual(admin, "mutual")
    admin.create("/edges/https", body)
    host.start()
    assert host.envoy.names == {f"mutual.{DOMAIN}"}
    admin.delete(f"/certificate_authorities/{body['mutual_tls']['certificate_authority_ids'][0]}")
    host.follow()
    assert host.envoy.names == set()


def test_ports_follow_tunnels_edges_and_gateways(host: Host, admin: Client) -> None:
    host.start()
    tunnel = host.open(admin.account, PORT, "tcp")
    host.follow()
    assert (host.envoy.names, host.special.tunnel_at("20001")) == ({"port/20001"}, tunnel)
    set_lease(GATEWAY.id, 0)
    host.follow()
    assert host.envoy.names == set()
    set_lease(GATEWAY.id, 60)
    host.follow()
    assert host.envoy.names == {"port/20001"}
    tunnels.close_tunnel(tunnel.account, tunnel.id)
    host.follow()
    assert (host.envoy.names, host.special.tunnel_at("20001")) == (set(), None)


def test_a_stream_edge_follows_the_tunnels_of_its_group(host: Host, admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    admin.create("/edges/tls", {"hostports": [f"tls.{DOMAIN}:443"], "backend": {"backend_id": group}})
    host.start()

    def clusters() -> set[str]:
        resources = (resource for resource in host.envoy.resources.values() if resource.key.name.startswith("stream/"))
        return {
            tunnel.id for resource in resources for tunnel in [member] if tunnel.id in f"{messages.decode(resource)}"
        }

    opening = Opening(Grant(admin.account, "sshcr_1", ()), GATEWAY.id, "ts_1", "192.0.2.9", labels=(("app", "shop"),))
    member = host.store.open(opening, most=10)
    host.follow()
    assert clusters() == {member.id}
    tunnels.close_tunnel(member.account, member.id)
    host.follow()
    assert clusters() == set()


def test_normal_names_below_a_special_wildcard_need_no_client_certificate(host: Host, admin: Client) -> None:
    special = admin.create("/edges/https", mutual(admin, "*.team"))["id"]
    normal = admin.create("/edges/https", {"hostports": [f"www.team.{DOMAIN}:443"]})["id"]
    host.start()
    expected = {f"*.team.{DOMAIN}", f"www.team.{DOMAIN}"}
    assert host.envoy.names == expected
    tunnel = host.open(admin.account, f"site.team.{DOMAIN}", "https")
    host.follow()
    assert host.envoy.names == {*expected, f"site.team.{DOMAIN}"}
    tunnels.close_tunnel(tunnel.account, tunnel.id)
    admin.delete(f"/edges/https/{normal}")
    host.follow()
    assert host.envoy.names == {f"*.team.{DOMAIN}"}
    admin.delete(f"/edges/https/{special}")
    host.follow()
    assert host.envoy.names == set()


def test_a_special_wildcard_serves_the_name_of_a_tunnel_without_a_live_gateway(host: Host, admin: Client) -> None:
    admin.create("/edges/https", mutual(admin, "*.team"))
    host.start()
    host.open(admin.account, f"site.team.{DOMAIN}", "https")
    host.follow()
    set_lease(GATEWAY.id, -1)
    host.follow()
    assert host.envoy.names == {f"*.team.{DOMAIN}"}
    set_lease(GATEWAY.id, 60)
    host.follow()
    assert host.envoy.names == {f"*.team.{DOMAIN}", f"site.team.{DOMAIN}"}


def test_an_edge_that_the_list_lacks_is_added_when_a_visitor_requests_its_name(host: Host, admin: Client) -> None:
    body = {"hostports": [f"old.{DOMAIN}:443"], "tls_termination": {"min_version": "1.3"}}
    owner = SpecialOwner(admin.account, admin.create("/edges/https", body)["id"])
    dynamodb.do(special_names.remove(owner))
    host.start()
    assert host.envoy.names == set()
    host.add(SpecialEntry(owner, (f"old.{DOMAIN}:443",)))
    assert host.envoy.names == {f"old.{DOMAIN}"}


def test_a_change_of_an_edge_that_forwards_bytes_keeps_its_names(host: Host, admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    backend = {"backend": {"backend_id": group}}
    addresses = [
        f"{path}/{admin.create(path, {'hostports': [hostport], **backend})['id']}"
        for path, hostport in (("/edges/tcp", PORT), ("/edges/tls", f"tls.{DOMAIN}:443"))
    ]
    host.start()
    before = host.envoy.names
    assert before == {"port/20001", f"tls.{DOMAIN}"}

    for address in addresses:
        admin.patch(address, {"description": "new"})
        host.follow()

    assert host.envoy.names == before


def test_a_changed_traffic_policy_changes_the_matcher_of_its_port(host: Host, admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    edge = admin.create("/edges/tcp", {"hostports": [PORT], "backend": {"backend_id": group}})
    host.start()
    (key,) = (key for key in host.envoy.resources if key.name == "port/20001")
    before = messages.decode(host.envoy.resources[key])

    policy = {"inbound": [{"expressions": ["conn.client_ip == '192.0.2.1'"], "actions": [{"type": "deny"}]}]}
    admin.put(f"/edges/tcp/{edge['id']}/traffic_policy", {"value": json.dumps(policy)})
    host.follow()

    after = messages.decode(host.envoy.resources[key])
    assert {name for name in after if after[name] != before[name]} == {"filter_chain_matcher"}
    assert "192.0.2.1" in json.dumps(after)


@pytest.mark.parametrize("proto", ["tcp", "tls"])
def test_a_changed_policy_changes_the_matcher_of_a_reserved_tunnel(
    host: Host, admin: Client, monkeypatch: pytest.MonkeyPatch, proto: Proto
) -> None:
    monkeypatch.setenv("TUNNEL_DOMAIN", DOMAIN)
    monkeypatch.setenv("TCP_PORTS", "20001-20001")
    path, body = ("/reserved_addrs", {}) if proto == "tcp" else ("/reserved_domains", {"domain": f"bytes.{DOMAIN}"})
    reservation, policy = admin.create(path, body), admin.create("/ip_policies", {})["id"]
    tunnel = host.open(admin.account, PORT if proto == "tcp" else f"bytes.{DOMAIN}", proto)
    host.start()
    name = "port/20001" if proto == "tcp" else f"tunnel/{tunnel.id}"
    (key,) = (key for key in host.envoy.resources if key.kind == "listener" and key.name == name)

    def matcher() -> str:
        return json.dumps(messages.decode(host.envoy.resources[key])["filter_chain_matcher"])

    unrestricted, module = matcher(), f"{path}/{reservation['id']}/ip_restriction"
    admin.put(module, {"ip_policy_ids": [policy]})
    host.follow()
    without_rules = matcher()
    assert without_rules != unrestricted
    rule = admin.create("/ip_policy_rules", {"ip_policy_id": policy, "cidr": "192.0.2.1", "action": "allow"})
    host.follow()
    assert "192.0.2.1" in matcher()
    admin.patch(f"/ip_policy_rules/{rule['id']}", {"cidr": "192.0.2.2"})
    host.follow()
    assert "192.0.2.2" in matcher()
    assert "192.0.2.1" not in matcher()
    admin.delete(f"/ip_policies/{policy}")
    host.follow()
    assert matcher() == without_rules
    admin.delete(module)
    host.follow()
    assert matcher() == unrestricted
