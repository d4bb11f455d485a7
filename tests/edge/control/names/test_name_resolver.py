"""Reads on demand: the account of a host, its records in few calls, and only what a change concerns."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chalicelib import __main__ as operator
from chalicelib.model.edges.modules import basic_auth
from chalicelib.model.edges.served import UNREADABLE
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels import gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import change_log, items
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.name_resolver import NameResolver
from edge.plan import names
from edge.plan.names import NamePlan
from edge.store import threads
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, PolicyUnknown, Unavailable
from edge.store.table import Store
from tests import openssl
from tests.proving import prove
from tests.queries import calls
from tests.transports import Client
from tests.tunnels import open_agent_tunnel

DOMAIN = "tunnels.localhost"
SERVICE = Service(DOMAIN, range(20000, 20100), frozenset({DOMAIN, f"*.{DOMAIN}"}))
GATEWAY = Gateway("gw-1", "192.0.2.1", 4433)
NAME, DEEP, OWN = f"demo.{DOMAIN}", f"x.demo.{DOMAIN}", "shop.example.com"


@pytest.fixture
def table() -> Store:
    store = Store("local", DOMAIN)
    gateways.announce(GATEWAY, lease=60)
    return store


@pytest.fixture
def resolver(table: Store) -> NameResolver:
    resolver = NameResolver(DOMAIN)
    resolver.refresh_gateways()
    return resolver


def open_tunnel(table: Store, client: Client, name: str = NAME, credential: str = "sshcr_1", **labels: str) -> str:
    proto: Proto = "tcp" if ":" in name else "https"
    opening = Opening(
        Grant(client.account, credential, ()), "gw-1", "ts_1", "192.0.2.9", name, f"https://{name}", proto=proto
    )
    if labels:
        opening = Opening(opening.grant, "gw-1", "ts_1", "192.0.2.9", labels=tuple(labels.items()))
    return table.open(opening, most=100).id


def create_edge(client: Client, *hosts: str, backend: str = "", **modules: object) -> str:
    hostports = [it if ":" in it else f"{it}:443" for it in hosts]
    id: str = client.create("/edges/https", {"hostports": hostports, **modules})["id"]
    route = client.create(f"/edges/https/{id}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    if backend:
        client.put(f"/edges/https/{id}/routes/{route}/backend", {"backend_id": backend})
    return id


def create_certificate(client: Client, *hosts: str) -> openssl.Issued:
    alternatives = ",".join(f"DNS:{it}" for it in hosts)
    issued = openssl.issue(f"/CN={hosts[0]}", extensions=(f"subjectAltName={alternatives}",))
    client.create("/tls_certificates", issued.upload)
    return issued


def reserve(client: Client, domain: str, **fields: object) -> str:
    id: str = client.create("/reserved_domains", {"domain": domain, **fields})["id"]
    if not domain.endswith(DOMAIN):
        prove(id)
    return id


def load(resolver: NameResolver, host: str, before: AccountRecords | None = None) -> AccountRecords:
    account = resolver.find_account(host)
    assert account
    return resolver.read(account, host, before)


def plan(name: str, records: AccountRecords) -> NamePlan:
    return names.plan_name(name, records, datetime.now(UTC), SERVICE)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("unknown.tunnels.localhost", ["BatchGetItem"]),
        ("x.y.unknown.tunnels.localhost", ["BatchGetItem"]),
        ("unknown.example.com", ["BatchGetItem"]),
        (".".join(["a"] * 90), ["BatchGetItem"]),
        (DOMAIN, []),
        (f"*.demo.{DOMAIN}", []),
        (f"Demo.{DOMAIN}", []),
        (f"demo.{DOMAIN}.", []),
        (f"a#b.{DOMAIN}", []),
        ("192.0.2.1", []),
        ("localhost", []),
        ("", []),
    ],
)
def test_an_unknown_host_takes_one_call_at_most(resolver: NameResolver, host: str, expected: list[str]) -> None:
    with calls() as store_calls:
        assert resolver.find_account(host) == ""
    assert store_calls == expected


@pytest.mark.parametrize("domain", [NAME, OWN])
def test_a_tunnel_follows_the_ip_policies_of_its_reservation(
    resolver: NameResolver, table: Store, admin: Client, domain: str
) -> None:
    module, policy = f"/reserved_domains/{reserve(admin, domain)}/ip_restriction", admin.create("/ip_policies", {})
    create_certificate(admin, domain)
    open_tunnel(table, admin, domain)
    records, follower = load(resolver, domain), Follower(change_log.read_since, time.time())
    follower.read(time.time())

    def refusals() -> str:
        nonlocal records
        item_keys = {item_key for it in follower.read(time.time()) for item_key in it.item_keys}
        records = resolver.read_changed(records, item_keys)
        site = plan(domain, records).site
        assert site == plan(domain, load(resolver, domain)).site
        return repr(site and site.refusals)

    assert refusals() == "()"
    admin.put(module, {"ip_policy_ids": [policy["id"]]})
    without_rules = refusals()
    assert without_rules != "()"
    body = {"ip_policy_id": policy["id"], "cidr": "192.0.2.0/24", "action": "allow"}
    rule = f"/ip_policy_rules/{admin.create('/ip_policy_rules', body)['id']}"
    assert "192.0.2.0/24" in refusals()
    admin.patch(rule, {"cidr": "198.51.100.0/24"})
    assert "198.51.100.0/24" in refusals()
    admin.delete(rule)
    assert refusals() == without_rules
    admin.delete(f"/ip_policies/{policy['id']}")
    assert refusals() == without_rules
    admin.put(module, {"enabled": False, "ip_policy_ids": [policy["id"]]})
    assert refusals() == "()"


def test_a_tunnel_follows_a_reservation_that_is_not_proved_beside_a_proved_wildcard(
    resolver: NameResolver, table: Store, admin: Client
) -> None:
    reserve(admin, "*.example.com")
    create_certificate(admin, OWN)
    open_tunnel(table, admin, OWN)
    records, follower = load(resolver, OWN), Follower(change_log.read_since, time.time())
    follower.read(time.time())

    def refusals() -> str:
        nonlocal records
        item_keys = {item_key for it in follower.read(time.time()) for item_key in it.item_keys}
        records = resolver.read_changed(records, item_keys)
        site = plan(OWN, records).site
        assert site == plan(OWN, load(resolver, OWN)).site
        return repr(site and site.refusals)

    policy = admin.create("/ip_policies", {})["id"]
    assert refusals() == "()"
    exact = admin.create("/reserved_domains", {"domain": OWN})["id"]
    assert refusals() == "()"
    admin.put(f"/reserved_domains/{exact}/ip_restriction", {"ip_policy_ids": [policy]})
    without_rules = refusals()
    assert without_rules != "()"
    prove(exact)
    assert refusals() == without_rules
    prove(exact, "lapsed")
    assert refusals() == without_rules
    admin.delete(f"/reserved_domains/{exact}")
    assert refusals() == "()"


@pytest.mark.parametrize("name", [NAME, f"{DOMAIN}:20001"])
def test_a_tunnel_follows_the_ip_policies_that_its_client_named(
    resolver: NameResolver, table: Store, admin: Client, stranger: Client, name: str
) -> None:
    policy, theirs = (it.create("/ip_policies", {})["id"] for it in (admin, stranger))
    grant = Grant(admin.account, "sshcr_1", ())
    opening = Opening(grant, "gw-1", "ts_1", "192.0.2.9").with_name(name, "url", "tcp" if ":" in name else "https")
    for missing in (theirs, policy[:-1] + ("a" if policy[-1] != "a" else "b")):
        with pytest.raises(PolicyUnknown):
            table.open(replace(opening, ip_policies=(policy, missing)), most=100)
    tunnel = table.open(replace(opening, ip_policies=(policy,)), most=100)
    assert tunnel.ip_policies == (policy,)
    assert online_tunnels.read_tunnels_of_gateway("gw-1") == [tunnel]
    follower = Follower(change_log.read_since, time.time())

    def read(before: AccountRecords | None) -> AccountRecords:
        if before is None:
            return resolver.read_items(admin.account, [tunnel.id], None)
        return resolver.read_changed(
            before, {item_key for it in follower.read(time.time()) for item_key in it.item_keys}
        )

    def refusals(records: AccountRecords) -> str:
        if ":" in name:
            return repr(names.plan_port("20001", records, datetime.now(UTC), SERVICE).refusals)
        site = plan(name, records).site
        return repr(site and site.refusals)

    follower.read(time.time())
    records = read(None)
    without_rules = refusals(records)
    assert "Network" not in without_rules
    assert without_rules not in ("()", "None")
    rule = admin.create("/ip_policy_rules", {"ip_policy_id": policy, "cidr": "192.0.2.0/24", "action": "allow"})["id"]
    records = read(records)
    assert "192.0.2.0/24" in refusals(records)
    assert refusals(records) == refusals(read(None))
    admin.delete(f"/ip_policy_rules/{rule}")
    admin.delete(f"/ip_policies/{policy}")
    assert refusals(read(records)) == refusals(read(None)) == without_rules


@pytest.mark.parametrize("holder", ["reserved domain", "route"])
def test_the_log_names_each_change_of_passwords(
    resolver: NameResolver, table: Store, admin: Client, holder: str
) -> None:
    if holder == "route":
        edge = create_edge(admin, NAME)
        (route,) = admin.get(f"/edges/https/{edge}/routes").json["routes"]
        module = f"/edges/https/{edge}/routes/{route['id']}/basic_auth"
    else:
        module = f"/reserved_domains/{reserve(admin, NAME)}/basic_auth"
        open_tunnel(table, admin)
    records, follower = load(resolver, NAME), Follower(change_log.read_since, time.time())
    follower.read(time.time())

    def digest() -> str:
        nonlocal records
        item_keys = {item_key for it in follower.read(time.time()) for item_key in it.item_keys}
        records = resolver.read_changed(records, item_keys)
        found = plan(NAME, records)
        assert found == plan(NAME, load(resolver, NAME))
        if found.site:
            return found.site.basic_auth.digest if found.site.basic_auth else ""
        assert found.edge
        rule = found.edge.targets[0].route.modules.get(basic_auth.MODULE)
        return rule.digest if rule else ""

    def set_module(password: str, **fields: object) -> str:
        body = {"credentials": [{"username": "ada", "password": password}], **fields}
        assert admin.put(module, body).status == 200
        return digest()

    found = [digest(), set_module("correct horse"), set_module("another horse"), set_module("x" * 8, enabled=False)]
    assert (found[0], found[3]) == ("", "")
    assert len(set(found)) == 3
    assert set_module("x" * 8) not in found
    assert admin.delete(module).status == 204
    assert digest() == ""


@pytest.mark.parametrize("is_reserved", [False, True])
def test_a_tunnel_takes_three_calls(resolver: NameResolver, table: Store, admin: Client, is_reserved: bool) -> None:
    if is_reserved:
        reserve(admin, NAME)
    tunnel = open_tunnel(table, admin)
    with calls() as store_calls:
        records = load(resolver, NAME)
    assert sorted(store_calls) == ["BatchGetItem", "BatchGetItem", "Query"]
    found = plan(NAME, records)
    assert (found.account, found.certificate, found.site and found.site.tunnel.id) == (
        admin.account,
        "operator",
        tunnel,
    )


@pytest.mark.parametrize("host", [OWN, DEEP])
def test_an_edge_with_a_certificate_takes_six_calls_and_one_decryption(
    resolver: NameResolver, table: Store, admin: Client, host: str
) -> None:
    reserve(admin, host)
    issued = create_certificate(admin, host)
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    tunnel = open_tunnel(table, admin, "", app="shop")
    edge = create_edge(admin, host, backend=group)
    with calls() as store_calls:
        records = load(resolver, host)
        found = plan(host, records)
        pair = resolver.key_pair(found.certificate, records)
    assert sorted(store_calls) == ["BatchGetItem"] * 3 + ["Decrypt"] + ["Query"] * 3
    assert found.edge
    assert (found.edge.edge.id, found.edge.hosts[0].state, found.edge.targets[0].weights) == (
        edge,
        "live",
        ((group, 1_000_000_000),),
    )
    assert pair
    stored, uploaded = (load_pem_private_key(it.encode(), None) for it in (pair.key, issued.key))
    assert (pair.chain, stored.public_key()) == (issued.certificate, uploaded.public_key())
    assert ([*records.tunnels], [*records.gateways.values()]) == ([tunnel], [GATEWAY])


def test_one_more_host_of_a_loaded_account_reads_only_what_it_needs(
    resolver: NameResolver, table: Store, admin: Client
) -> None:
    other = f"other.{DOMAIN}"
    open_tunnel(table, admin), open_tunnel(table, admin, other)
    before = load(resolver, NAME)
    with calls() as store_calls:
        records = load(resolver, other, before)
    assert store_calls == ["BatchGetItem", "BatchGetItem"]
    assert [plan(it, records).is_served for it in (NAME, other)] == [True, True]
    with calls() as store_calls:
        assert resolver.keep(records, [NAME]) == before
    assert store_calls == []


def test_the_longest_proved_domain_decides_whose_a_host_is(
    resolver: NameResolver, admin: Client, stranger: Client
) -> None:
    reserve(admin, "*.example.com")
    edge = create_edge(admin, "*.example.com")
    create_certificate(admin, "*.example.com")
    admins = load(resolver, OWN)
    served = plan(OWN, admins).edge
    assert served
    assert served.edge.id == edge
    reserve(stranger, OWN)
    assert resolver.find_account(OWN) == stranger.account
    assert plan(OWN, resolver.resync(admins)).refusal == "The account has not proved that it owns the domain."
    assert plan("b.example.com", load(resolver, "b.example.com", admins)).is_served


def test_a_domain_that_another_account_proves_below_a_wildcard_is_lost(
    resolver: NameResolver, admin: Client, stranger: Client
) -> None:
    reserve(admin, "*.example.com")
    create_edge(admin, "*.example.com")
    create_certificate(admin, "*.example.com")
    before = load(resolver, OWN)
    since = time.time()
    exact = reserve(stranger, OWN)
    assert read_logged(resolver, before, since) == resolver.resync(before) != before
    assert not plan(OWN, resolver.resync(before)).is_served
    lost = resolver.resync(before)
    since = time.time()
    prove(exact, "lapsed")
    assert plan(OWN, read_logged(resolver, lost, since)).is_served


def test_ports_are_read_with_their_reserved_addresses(resolver: NameResolver, table: Store, admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    address = admin.create("/reserved_addrs", {"proxy_protocol": True})
    port = address["addr"].rpartition(":")[2]
    tunnel = open_tunnel(table, admin, address["addr"])
    before = resolver.read_items(admin.account, [tunnel], None)
    open_port = names.plan_port(port, before, datetime.now(UTC), Service(DOMAIN, range(20000, 30000)))
    assert open_port.tunnel
    assert open_port.tunnel.id == tunnel
    edge = admin.create("/edges/tcp", {"hostports": [address["addr"]], "backend": {"backend_id": group}})["id"]
    records = resolver.read_items(admin.account, [edge], None)
    served = names.plan_port(port, records, datetime.now(UTC), Service(DOMAIN, range(20000, 30000)))
    assert served.edge
    assert (served.edge.edge.id, served.edge.is_proxied, served.tunnel) == (edge, True, None)
    since = time.time()
    assert admin.delete(f"/reserved_addrs/{address['id']}").status == 204
    changed = read_logged(resolver, records, since)
    assert changed == resolver.resync(records)
    assert changed.edges[edge].proxied == frozenset()


def test_a_special_edge_knows_what_others_have_proved_below_its_wildcards(
    resolver: NameResolver, admin: Client, stranger: Client
) -> None:
    reserve(admin, "*.example.com")
    reserve(stranger, OWN)
    create_certificate(admin, "*.example.com")
    edge = create_edge(admin, "*.example.com")
    found = names.plan_edge(edge, resolver.read_items(admin.account, [edge], None), datetime.now(UTC), SERVICE)
    assert found
    assert found.served_elsewhere == (OWN,)


def test_an_edge_that_cannot_be_understood_is_closed_where_its_keys_name_it(
    resolver: NameResolver, table: Store, admin: Client
) -> None:
    edge = create_edge(admin, DEEP)
    scope = items.scope(admin.account, "/edges/https")
    dynamodb.do(Write.update(scope, edge, Condition(""), sets={"body": "of another form", "claims": 7}))
    assert plan(DEEP, load(resolver, DEEP)) == NamePlan(DEEP, admin.account, refusal=UNREADABLE, is_closed=True)


def test_a_banned_base_name_is_unknown(resolver: NameResolver, admin: Client) -> None:
    create_edge(admin, DEEP)
    assert resolver.find_account(DEEP) == admin.account
    name_bans.ban_name(NAME)
    assert resolver.find_account(DEEP) == ""
    name_bans.lift_name_ban(NAME)


def read_logged(resolver: NameResolver, before: AccountRecords, since: float) -> AccountRecords:
    """Return the records after the logged changes that can affect them."""
    item_keys = {item_key for change in change_log.read_since(since - 0.001) for item_key in change.item_keys}
    return resolver.read_changed(before, filter(before.is_affected_by, item_keys))


Act = Callable[[Store, Client], object]


def first(client: Client, path: str) -> str:
    """Return the path of the newest resource of a list."""
    listed = client.get(path).json
    (found,) = (it for it in listed.values() if isinstance(it, list))
    return f"{path}/{found[0]['id']}"


CHANGES: dict[str, Act] = {
    "route added": lambda table, client: client.create(
        f"{first(client, '/edges/https')}/routes", {"match_type": "exact_path", "match": "/a"}
    ),
    "route deleted": lambda table, client: client.delete(first(client, f"{first(client, '/edges/https')}/routes")),
    "host moved": lambda table, client: client.patch(first(client, "/edges/https"), {"hostports": [f"{OWN}:443"]}),
    "edge deleted": lambda table, client: client.delete(first(client, "/edges/https")),
    "edge added": lambda table, client: create_edge(client, DEEP, f"*.other.{DOMAIN}"),
    "mutual TLS": lambda table, client: client.put(
        f"{first(client, '/edges/https')}/mutual_tls",
        {
            "certificate_authority_ids": [
                client.create(
                    "/certificate_authorities",
                    {
                        "ca_pem": openssl.issue(
                            "/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",)
                        ).certificate
                    },
                )["id"]
            ]
        },
    ),
    "tunnel ended": lambda table, client: (
        client.get("/tunnels")
        and [tunnels.close_tunnel(client.account, it["id"]) for it in client.get("/tunnels").json["tunnels"]]
    ),
    "tunnel replaced": lambda table, client: open_tunnel(table, client),
    "labelled tunnel added": lambda table, client: open_tunnel(table, client, "", app="shop"),
    "group changed": lambda table, client: client.patch(
        first(client, "/backends/tunnel_group"), {"labels": {"app": "other"}}
    ),
    "reservation added": lambda table, client: reserve(client, DEEP, proxy_protocol=True),
    "reservation deleted": lambda table, client: client.delete(first(client, "/reserved_domains")),
    "certificate added": lambda table, client: create_certificate(client, DEEP),
    "switched off": lambda table, client: operator.main(["suspend", client.account]),
    "banned": lambda table, client: name_bans.ban_name(NAME),
    "of another name": lambda table, client: open_tunnel(table, client, f"unloaded.{DOMAIN}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_records_are_those_of_a_full_read(
    resolver: NameResolver, table: Store, admin: Client, change: str
) -> None:
    reserve(admin, f"team.{DOMAIN}")
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    open_tunnel(table, admin, "", app="shop")
    create_edge(admin, f"x.team.{DOMAIN}", f"*.team.{DOMAIN}", backend=group)
    open_tunnel(table, admin)
    before = load(resolver, NAME)
    for host in (f"x.team.{DOMAIN}", f"y.team.{DOMAIN}"):
        before = load(resolver, host, before)
    assert before == resolver.resync(before)
    if change in ("edge added", "reservation added", "certificate added"):
        before = resolver.read(admin.account, DEEP, before)
    since = time.time()
    CHANGES[change](table, admin)
    with calls() as store_calls:
        records = read_logged(resolver, before, since)
    assert len(store_calls) <= 8  # with the four of the log
    assert records == resolver.resync(records)
    assert (records == before) is (change == "of another name")
    operator.main(["resume", admin.account])
    name_bans.lift_name_ban(NAME)


def test_a_resync_reads_all_known_items_in_one_call(resolver: NameResolver, table: Store, admin: Client) -> None:
    reserve(admin, OWN)
    create_certificate(admin, OWN)
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    open_tunnel(table, admin, "", app="shop")
    create_edge(admin, OWN, backend=group)
    before = load(resolver, OWN)
    with calls() as store_calls:
        assert resolver.resync(before) == before
    assert (
        sorted(store_calls) == ["BatchGetItem"] + ["Query"] * 3
    )  # the lists: certificates, routes and labelled tunnels


def test_a_resync_takes_no_memory_for_values_that_did_not_change(resolver: NameResolver, admin: Client) -> None:
    edge = create_edge(admin, NAME)
    create_edge(admin, DEEP)
    before = load(resolver, DEEP, load(resolver, NAME))
    assert admin.patch(f"/edges/https/{edge}", {"description": "changed"}).status == 200
    read = resolver.resync(before)
    replaced = {item_key.id for item_key, it in read.values.items() if it.value is not before.values[item_key].value}
    assert (replaced, read.values.keys()) == ({edge}, before.values.keys())


def test_a_gateway_that_is_down_takes_its_tunnels_along(resolver: NameResolver, table: Store, admin: Client) -> None:
    open_tunnel(table, admin)
    before = load(resolver, NAME)
    item_key = ItemKey(gateways.GATEWAYS, "gw-1")
    assert (resolver.refresh_gateways(), before.is_affected_by(item_key)) == (frozenset(), True)
    gateways.leave("gw-1")
    assert resolver.refresh_gateways() == {item_key}
    with calls() as store_calls:
        records = resolver.read_changed(before, [item_key])
    assert (store_calls, plan(NAME, records).is_served) == ([], False)


def test_a_name_that_used_a_record_which_is_no_longer_known_is_read_again(
    resolver: NameResolver, table: Store, admin: Client
) -> None:
    open_tunnel(table, admin)
    before, changed = load(resolver, NAME), [ItemKey(gateways.GATEWAYS, "gw-1")]
    used = {NAME: frozenset({*before.versions, ItemKey("gone", "claim")})}
    assert resolver.read_changed(before, changed, used) == resolver.read_changed(before, changed) == before


@pytest.mark.parametrize(("port", "draining", "is_changed"), [(1, False, True), (0, True, True), (0, False, False)])
def test_a_gateway_has_changed_with_its_port_or_its_drain_but_not_with_its_lease(
    resolver: NameResolver, port: int, draining: bool, is_changed: bool
) -> None:
    gateways.change(replace(GATEWAY, port=GATEWAY.port + port, draining=draining))
    gateways.renew(GATEWAY.id, lease=90)
    assert bool(resolver.refresh_gateways()) is is_changed


def test_a_tunnel_of_an_earlier_version_is_read_again_at_the_end_of_its_lease(
    resolver: NameResolver, admin: Client
) -> None:
    id = open_agent_tunnel(admin.account, name=NAME, lease=60)
    before = load(resolver, NAME)
    item_key = ItemKey(tunnels.scope(admin.account), id)
    assert before.list_lapsed(time.time()) == frozenset()
    assert before.list_lapsed(time.time() + 60) == {item_key}
    tunnels.renew_lease(admin.account, id, lease=120)
    assert resolver.read_changed(before, [item_key]).list_lapsed(time.time() + 60) == frozenset()


def test_a_tunnel_of_its_gateway_has_no_lease_to_follow(resolver: NameResolver, table: Store, admin: Client) -> None:
    open_tunnel(table, admin)
    assert load(resolver, NAME).list_lapsed(time.time() + 3600) == frozenset()


def test_a_store_that_is_away_is_unavailable(resolver: NameResolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "missing")
    with pytest.raises(Unavailable):
        asyncio.run(threads.call(resolver.find_account, NAME))
