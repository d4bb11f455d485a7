"""The values that the resolver reads for names: whole ones, malformed ones, and those of other accounts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.served import UNREADABLE, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items, table
from edge.control.names.name_resolver import NameResolver
from tests import openssl
from tests.edge.edge_modules import enabled
from tests.proving import prove
from tests.queries import calls
from tests.transports import Client

DOMAIN = "tunnels.localhost"
NAME, PORT = f"demo.{DOMAIN}", f"{DOMAIN}:20001"
NOT_READABLE: list[Callable[[dict[str, Any]], Any]] = [
    lambda _: "of another form",
    lambda _: {},
    lambda _: {"description": "without all else"},
]


@pytest.fixture
def resolver() -> NameResolver:
    return NameResolver(DOMAIN)


def read(resolver: NameResolver, client: Client, *edges: str) -> AccountRecords:
    return resolver.read_items(client.account, edges, None)


def create_edge(client: Client, path: str, *hostports: str) -> str:
    id: str = client.create(path, {"hostports": list(hostports)})["id"]
    return id


def create_certificate(client: Client) -> tuple[str, openssl.Issued]:
    issued = openssl.issue(f"/CN={NAME}", extensions=(f"subjectAltName=DNS:{NAME}",))
    return client.create("/tls_certificates", issued.upload)["id"], issued


def damage(client: Client, path: str, id: str, damaged: Callable[[dict[str, Any]], Any]) -> None:
    scope = items.scope(client.account, path)
    item = table.read(scope, id)
    assert item
    dynamodb.do(Write.update(scope, id, Condition(""), sets={"body": damaged(item.body)}))


def test_only_reservations_that_decide_about_a_name_are_read(
    resolver: NameResolver, admin: Client, stranger: Client
) -> None:
    certificate, _ = create_certificate(admin)
    body = {"domain": NAME, "certificate_id": certificate, "proxy_protocol": True}
    below = admin.create("/reserved_domains", body)["id"]
    elsewhere = stranger.create("/reserved_domains", {"domain": "*.example.com"})["id"]
    edge = create_edge(admin, "/edges/https", f"{NAME}:443", "a.example.com:443")
    known = ServedReservation(admin.account, below, NAME, True, certificate, True)
    assert read(resolver, admin, edge).reservations == (known,)
    prove(elsewhere)
    other = ServedReservation(stranger.account, elsewhere, "*.example.com", True)
    assert {*read(resolver, admin, edge).reservations} == {known, other}
    wildcard = create_edge(stranger, "/edges/https", "*.example.com:443")
    assert read(resolver, stranger, wildcard).reservations == (other,)


def test_domains_proved_directly_below_a_wildcard_are_read_while_the_proof_holds(
    resolver: NameResolver, admin: Client, stranger: Client
) -> None:
    proved = ("shop.example.com", "*.cafe.example.com", "a.cafe.example.com", "shop.example.net")
    made = {domain: stranger.create("/reserved_domains", {"domain": domain})["id"] for domain in proved}
    edge, shop = create_edge(admin, "/edges/https", "*.example.com:443"), made["shop.example.com"]
    assert read(resolver, admin, edge).reservations == ()
    for id in made.values():
        prove(id)
    known = (ServedReservation(stranger.account, shop, "shop.example.com", True),)
    assert read(resolver, admin, edge).reservations == known
    other = ids.new(kinds.RESERVED_DOMAINS.prefix)
    for id, body in ((other, {}), (other, "of another form"), (other, {"account": 7}), ("anything", {"account": "a"})):
        dynamodb.do(Write.put({"scope": "edge#/proved/example.com", "id": id, "body": body}))
        assert read(resolver, admin, edge).reservations == known  # within the rights of the edge
        dynamodb.do(Write.delete("edge#/proved/example.com", id))
    prove(shop, "lapsed")
    assert read(resolver, admin, edge).reservations == ()
    prove(shop)
    assert read(resolver, admin, edge).reservations == known
    stranger.delete(f"/reserved_domains/{shop}")
    assert read(resolver, admin, edge).reservations == ()
    assert list(table.read_all("edge#/proved/example.com")) == []


@pytest.mark.parametrize("damaged", [*NOT_READABLE, lambda whole: {**whole, "proxy_protocol": "yes"}])
def test_a_malformed_reservation_is_known_and_closes_a_port(
    resolver: NameResolver, admin: Client, monkeypatch: pytest.MonkeyPatch, damaged: Callable[[dict[str, Any]], Any]
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20001")
    address = admin.create("/reserved_addrs", {"proxy_protocol": True})["id"]
    below = admin.create("/reserved_domains", {"domain": NAME, "proxy_protocol": True})["id"]
    named, open_port = create_edge(admin, "/edges/https", f"{NAME}:443"), create_edge(admin, "/edges/tcp", PORT)
    damage(admin, "/reserved_addrs", address, damaged)
    damage(admin, "/reserved_domains", below, damaged)
    known = ServedReservation(admin.account, below, NAME, True, is_readable=False)
    assert read(resolver, admin, named).reservations == (known,)
    closed = ServedEdge(admin.account, open_port, 1, (PORT,), error=UNREADABLE)
    assert read(resolver, admin, open_port).edges == {open_port: closed}


def test_certificates_are_read_with_their_keys_until_they_are_deleted(resolver: NameResolver, admin: Client) -> None:
    id, issued = create_certificate(admin)
    edge = create_edge(admin, "/edges/tls", f"{NAME}:443")
    records = read(resolver, admin, edge)
    (found,) = records.certificates.values()
    assert (found.id, found.account, found.names) == (id, admin.account, (NAME,))
    with calls() as made:
        pair = resolver.key_pair(id, records)
    assert (made, pair and pair.chain) == (["Decrypt"], issued.certificate)
    stored, uploaded = (load_pem_private_key(key.encode(), None) for key in (pair.key if pair else "", issued.key))
    assert stored.public_key() == uploaded.public_key()
    admin.delete(f"/tls_certificates/{id}")
    assert read(resolver, admin, edge).certificates == {}


@pytest.mark.parametrize(
    "damaged",
    [
        *NOT_READABLE,
        lambda whole: {**whole, "subject_alternative_names": 7},
        lambda whole: {**whole, "subject_alternative_names": {"dns_names": [7]}},
        lambda whole: {**whole, "certificate_pem": 7},
        lambda whole: {**whole, "not_after": "tomorrow"},
    ],
)
def test_a_malformed_certificate_is_left_out(
    resolver: NameResolver, admin: Client, damaged: Callable[[dict[str, Any]], Any]
) -> None:
    (lost, _), (whole, _) = create_certificate(admin), create_certificate(admin)
    damage(admin, "/tls_certificates", lost, damaged)
    edge = create_edge(admin, "/edges/tls", f"{NAME}:443")
    assert [*read(resolver, admin, edge).certificates] == [whole]


def test_an_edge_is_read_with_what_it_names_in_few_calls(resolver: NameResolver, admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "shop"}})["id"]
    answer = admin.create("/backends/http_response", {"status_code": 503})["id"]
    shared = admin.create("/backends/weighted", {"backends": {group: 3, answer: 1}})["id"]
    issued = openssl.issue("/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",))
    authority = admin.create("/certificate_authorities", {"ca_pem": issued.certificate})["id"]
    mutual, host = {"certificate_authority_ids": [authority]}, f"{NAME}:443"
    body = {"hostports": [host], "tls_termination": {"min_version": "1.3"}, "mutual_tls": mutual}
    path = f"/edges/https/{(edge := admin.create('/edges/https', body)['id'])}"
    secret = {"provider": {"github": {"client_id": "id", "client_secret": "hidden", "scopes": ["user"]}}}
    route = admin.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    admin.put(f"{path}/routes/{route}/backend", {"backend_id": shared})
    admin.put(f"{path}/routes/{route}/oauth", secret)
    with calls() as made:
        records = read(resolver, admin, edge)
    assert sorted(made) == ["BatchGetItem"] * 3 + ["Query"] * 3
    found = records.edges[edge]
    rule = found.routes[0].modules.values.get("oauth")
    assert rule
    assert replace(rule, digest="") == SignInRule("github", "", client_id="id", scopes=("user",))  # without the secret
    modules = enabled(backend=BackendModule(backend_id=shared), oauth=rule)
    assert replace(found, modules=enabled()) == ServedEdge(
        admin.account, edge, 4, (host,), routes=(ServedRoute(route, "path_prefix", "/", modules),)
    )
    assert found.modules.values.get("tls_termination") == TlsTerminationModule(min_version="1.3")
    assert records.authorities == {authority: ServedAuthority(admin.account, authority, issued.certificate)}
    assert {id: it.value for id, it in records.backends.items()} == {
        shared: Weighted(**own(admin, "weighted", shared), backends={group: 3, answer: 1}),
        group: TunnelGroup(**own(admin, "tunnel_group", group), labels={"app": "shop"}),
        answer: HttpResponse(**own(admin, "http_response", answer), status_code=503),
    }


def own(admin: Client, path: str, id: str) -> dict[str, Any]:
    return {"created_at": admin.get(f"/backends/{path}/{id}").json["created_at"]}


def test_malformed_edges_and_backends_are_marked_and_others_are_read(resolver: NameResolver, admin: Client) -> None:
    lost, whole = (admin.create("/backends/http_response", {"body": body})["id"] for body in ("a", "b"))
    edges = {
        path: create_edge(admin, path, f"{number}.{NAME}:443")
        for number, path in enumerate(("/edges/https", "/edges/tls"))
    }
    shared = admin.create("/backends/weighted", {"backends": {lost: 1, whole: 1}})["id"]
    open_edge = create_edge(admin, "/edges/https", f"open.{NAME}:443")
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": shared}}
    admin.create(f"/edges/https/{open_edge}/routes", route)
    for path, id in edges.items():
        damage(admin, path, id, lambda _: "of another form")
    damage(admin, "/backends/http_response", lost, lambda _: "of another form")
    for number, (path, id) in enumerate(edges.items()):
        (found,) = resolver.read(admin.account, f"{number}.{NAME}", None).edges.values()
        assert found == ServedEdge(admin.account, id, 0, (f"{number}.{NAME}:443",), error=UNREADABLE), path
    found_parts = read(resolver, admin, open_edge).backends
    value = HttpResponse(**own(admin, "http_response", whole), body="b")
    assert (found_parts[lost], found_parts[whole].value) == (ServedBackend(admin.account, lost, None), value)


def test_records_of_another_account_are_not_read(resolver: NameResolver, admin: Client, stranger: Client) -> None:
    edge = create_edge(admin, "/edges/tls", f"{NAME}:443")
    assert [[*read(resolver, it, edge).edges] for it in (admin, stranger)] == [[edge], []]
    admin.patch(f"/edges/tls/{edge}", {"hostports": []})
    assert read(resolver, admin, edge).edges == {}


def test_an_account_that_is_switched_off_is_inactive(resolver: NameResolver, admin: Client) -> None:
    edge = create_edge(admin, "/edges/tls", f"{NAME}:443")
    assert read(resolver, admin, edge).is_active
    operator.main(["accounts", "disable", admin.account])
    assert not read(resolver, admin, edge).is_active
