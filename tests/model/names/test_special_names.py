"""The list of special names: what is in it, that the log names its changes, and that `migrate` completes it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.edges import special_edges
from chalicelib.model.edges.enforced.enforced_modules import Modules
from chalicelib.model.names import special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel, Proto
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import change_log, items, table
from chalicelib.storage.records.change_log import ItemKey
from tests import openssl
from tests.queries import calls
from tests.transports import Client

HOSTPORT, PORT = "app.example.com:443", "tunnels.localhost:20001"
TLS_1_3 = {"tls_termination": {"min_version": "1.3"}}
OF_UPSTREAM = {"terminate_at": "upstream"}


def list_special_names() -> dict[SpecialOwner, tuple[str, ...]]:
    """Return all entries, none of them malformed."""
    return {entry.owner: entry.hostports for entry in special_names.read_entries() if isinstance(entry, SpecialEntry)}


def list_logged_owners(since: int) -> set[SpecialOwner]:
    """Return the owners of the entries that the log names after its first changes."""
    changes = sorted(change_log.read_since(0), key=lambda change: change.id)[since:]
    return {
        owner for change in changes for item_key in change.item_keys if (owner := special_names.find_owner(item_key))
    }


def open_tunnel(account: str, name: str, proto: Proto, *, lease: int = 60, credential: str = "") -> str:
    """Open a tunnel. Return its id."""
    tunnel = AgentTunnel(
        tunnel_session=ids.new("ts"),
        endpoint=ids.new("ep"),
        region="eu",
        proto=proto,
        public_url=f"{proto}://{name}",
        forwards_to="192.0.2.1",
        gateway="gw-1",
        credential=credential,
    )
    return tunnels.open_tunnel(account, tunnel, lease=lease, name=name)


@pytest.mark.parametrize(
    ("path", "body", "is_special"),
    [
        ("/edges/https", {}, False),
        ("/edges/https", {"tls_termination": {}}, False),
        ("/edges/https", {"tls_termination": {"min_version": "1.2"}}, False),
        ("/edges/https", TLS_1_3, True),
        ("/edges/https", {"tls_termination": {"min_version": "1.0"}}, True),
        ("/edges/https", {"tls_termination": {"min_version": "1.3", "enabled": False}}, False),
        ("/edges/https", OF_UPSTREAM, True),
        ("/edges/https", {"mutual_tls": {"certificate_authority_ids": ["AUTHORITY"]}}, True),
        ("/edges/https", {"mutual_tls": {"certificate_authority_ids": ["AUTHORITY"], "enabled": False}}, False),
        ("/edges/tls", {}, True),
        ("/edges/tcp", {}, True),
    ],
)
def test_edges_with_special_names_are_listed_while_they_have_hostports(
    admin: Client, path: str, body: Mapping[str, Any], is_special: bool
) -> None:
    hostports = [PORT] if path == "/edges/tcp" else [HOSTPORT]
    edge_id = admin.create(path, {**_with_authority(admin, body), "hostports": hostports})["id"]
    owner = SpecialOwner(admin.account, edge_id)
    assert (list_special_names(), list_logged_owners(0)) == (
        ({owner: tuple(hostports)}, {owner}) if is_special else ({}, set())
    )
    count = len(change_log.read_since(0))
    admin.patch(f"{path}/{edge_id}", {"description": "changed"})
    assert list_logged_owners(count) == set()
    admin.delete(f"{path}/{edge_id}")
    assert (list_special_names(), list_logged_owners(count)) == ({}, {owner} if is_special else set())


def test_an_entry_follows_the_hostports_and_modules_of_its_edge(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [HOSTPORT]})["id"]
    owner, address = SpecialOwner(admin.account, edge), f"/edges/https/{edge}"
    admin.put(f"{address}/tls_termination", {"min_version": "1.3"})
    assert list_special_names() == {owner: (HOSTPORT,)}
    admin.patch(address, {"hostports": [HOSTPORT, "b.example.com:443"]})
    assert list_special_names() == {owner: (HOSTPORT, "b.example.com:443")}
    admin.delete(f"{address}/tls_termination")
    assert (list_special_names(), list_logged_owners(0)) == ({}, {owner})
    admin.put(f"{address}/tls_termination", {"min_version": "1.1"})
    admin.patch(address, {"hostports": []})
    assert list_special_names() == {}


def test_an_edge_is_listed_while_a_route_has_oauth(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [HOSTPORT]})["id"]
    owner, address = SpecialOwner(admin.account, edge), f"/edges/https/{edge}"
    routes = [
        f"{address}/routes/{admin.create(f'{address}/routes', {'match_type': 'path_prefix', 'match': match})['id']}"
        for match in ("/", "/other")
    ]
    oauth: dict[str, Any] = {"provider": {"google": {}}}
    admin.put(f"{routes[0]}/oauth", {**oauth, "enabled": False})
    assert list_special_names() == {}
    for route in routes:
        admin.put(f"{route}/oauth", oauth)
    assert list_special_names() == {owner: (HOSTPORT,)}
    admin.put(f"{address}/tls_termination", {"min_version": "1.3"})
    admin.delete(f"{address}/tls_termination")
    assert list_special_names() == {owner: (HOSTPORT,)}  # otherwise no host would serve it
    admin.patch(address, {"hostports": ["b.example.com:443"]})
    assert list_special_names() == {owner: ("b.example.com:443",)}
    admin.delete(f"{routes[0]}/oauth")
    assert list_special_names() == {owner: ("b.example.com:443",)}
    admin.delete(routes[1])
    assert list_special_names() == {}
    admin.put(f"{routes[0]}/oauth", oauth)
    dynamodb.do(special_names.remove(owner))
    operator.main(["migrate", "--apply"])
    assert list_special_names() == {owner: ("b.example.com:443",)}
    admin.delete(address)
    assert list_special_names() == {}


@pytest.mark.parametrize("module", ["mutual_tls", "tls_termination"])
@pytest.mark.parametrize("record", ["of another form", None])
def test_an_edge_with_a_malformed_module_is_listed_and_closed(admin: Client, module: str, record: object) -> None:
    edge = admin.create("/edges/https", {"hostports": [HOSTPORT], "description": "d"})["id"]
    scope = items.scope(admin.account, "/edges/https")
    dynamodb.do(Write.update(scope, edge, Condition(""), sets={"parts": {module: record}}))
    item = table.find(scope, edge)
    assert item
    assert Modules.of(item.modules, kinds.HTTPS_EDGES).unenforced == (module,)
    writes = special_edges.list_edge(None, item)
    assert writes == [special_names.add(SpecialEntry(SpecialOwner(admin.account, edge), (HOSTPORT,)))]


@pytest.mark.parametrize(
    ("name", "proto", "hostports"),
    [
        ("demo.tunnels.localhost", "https", None),
        ("demo.tunnels.localhost", "tls", ("demo.tunnels.localhost:443",)),
        (PORT, "tcp", (PORT,)),
    ],
)
def test_tunnels_of_bytes_are_listed_while_they_are_online(
    admin: Client, name: str, proto: Proto, hostports: Sequence[str] | None
) -> None:
    count = len(change_log.read_since(0))
    owner = SpecialOwner(admin.account, open_tunnel(admin.account, name, proto))
    expected = {owner: tuple(hostports)} if hostports else {}
    assert (list_special_names(), list_logged_owners(count)) == (expected, {*expected})
    count = len(change_log.read_since(0))
    tunnels.close_tunnel(*owner)
    assert (list_special_names(), list_logged_owners(count)) == ({}, {*expected})


def test_the_entry_of_a_tunnel_goes_with_its_lease(admin: Client) -> None:
    owner = SpecialOwner(admin.account, open_tunnel(admin.account, PORT, "tcp", lease=0))
    count = len(change_log.read_since(0))
    online_tunnels.end_all_offline(admin.account)
    assert (list_special_names(), list_logged_owners(count)) == ({}, {owner})


def test_a_tunnel_that_takes_a_name_over_replaces_the_entry(admin: Client) -> None:
    first = SpecialOwner(admin.account, open_tunnel(admin.account, PORT, "tcp", credential="sshcr_1"))
    count = len(change_log.read_since(0))
    second = SpecialOwner(admin.account, open_tunnel(admin.account, PORT, "tcp", credential="sshcr_1"))
    assert (list_special_names(), list_logged_owners(count)) == ({second: (PORT,)}, {first, second})


def test_entries_are_read_together(admin: Client) -> None:
    edge_ids = [admin.create("/edges/tls", {"hostports": [f"{name}.example.com:443"]})["id"] for name in "ab"]
    owners = [SpecialOwner(admin.account, id) for id in (*edge_ids, ids.new("edgtls"))]
    with calls() as operations:
        entries = special_names.read(owners)
    assert (entries, operations) == (
        {owner: SpecialEntry(owner, (f"{name}.example.com:443",)) for owner, name in zip(owners, "ab", strict=False)},
        ["BatchGetItem"],
    )


def test_a_malformed_entry_harms_no_other(admin: Client) -> None:
    edge = admin.create("/edges/tls", {"hostports": [HOSTPORT]})["id"]
    wrong: list[tuple[str, Any]] = [
        (f"{admin.account}/{ids.new('edgtls')}", {"hostports": "of another form"}),
        (f"{admin.account}/{ids.new('edgtls')}", {"hostports": [7]}),
        (f"{admin.account}/{ids.new('rd')}", {"hostports": [HOSTPORT]}),
        (edge, {"hostports": [HOSTPORT]}),
    ]
    for id, body in wrong:
        dynamodb.do(Write.put({"scope": "edge#/special/3", "id": id, "body": body}))
    assert list_special_names() == {SpecialOwner(admin.account, edge): (HOSTPORT,)}
    malformed = {entry for entry in special_names.read_entries() if isinstance(entry, ItemKey)}
    assert malformed == {ItemKey("edge#/special/3", id) for id, _ in wrong}


def test_migrate_lists_what_earlier_versions_wrote(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    edge = admin.create("/edges/https", {"hostports": [HOSTPORT], **TLS_1_3})["id"]
    admin.create("/edges/https", {"hostports": ["b.example.com:443"]})
    tunnel = open_tunnel(admin.account, PORT, "tcp")
    open_tunnel(admin.account, "demo.tunnels.localhost", "https")
    expected = {SpecialOwner(admin.account, edge): (HOSTPORT,), SpecialOwner(admin.account, tunnel): (PORT,)}
    assert list_special_names() == expected
    for owner in expected:
        dynamodb.do(special_names.remove(owner))
    operator.main(["migrate", "--apply"])
    assert (list_special_names(), "2 rewritten." in capsys.readouterr().out) == (expected, True)
    operator.main(["migrate", "--apply"])
    assert "0 rewritten." in capsys.readouterr().out


def _with_authority(admin: Client, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request with the id of an authority."""
    if "mutual_tls" not in body:
        return dict(body)
    issued = openssl.issue("/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",))
    authority = admin.create("/certificate_authorities", {"ca_pem": issued.certificate})["id"]
    return {**body, "mutual_tls": {**body["mutual_tls"], "certificate_authority_ids": [authority]}}
