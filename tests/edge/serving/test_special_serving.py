"""The resources of special names and ports: what each kind of name needs, and what a change of an account changes."""

import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.served import ServedAuthority, ServedEdge
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.names import https_listener
from edge.envoy.resources import Changes
from edge.plan import names
from edge.process.settings import Settings
from edge.serving.name_resources import build_name_resources
from edge.serving.order import NameResources
from edge.serving.special_plans import SpecialPlans
from edge.serving.special_serving import SpecialServing
from tests.edge.edge_modules import extended
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY, GROUP, NOW, A, B

SETTINGS = Settings(tcp_ports=range(20000, 20100))
SERVICE = Service("tunnels.localhost", SETTINGS.tcp_ports, frozenset({"*.tunnels.localhost"}))
HOST, PORT = "a.tunnels.localhost", "tunnels.localhost:20001"


@pytest.fixture
def serving() -> SpecialServing:
    return SpecialServing(SETTINGS, "PEM")


def records(
    *edges: ServedEdge, account: str = A, tunnels: Iterable[ServedTunnel] = (), reservations: Any = ()
) -> AccountRecords:
    tunnels_of_account = [worlds.tunnel("tn_group", account=account), *tunnels]
    return AccountRecords(
        account,
        frozenset(),
        edges={edge.id: replace(edge, account=account) for edge in edges},
        tunnels={tunnel.id: replace(tunnel, account=account) for tunnel in tunnels_of_account},
        gateways={GATEWAY.id: GATEWAY},
        backends={GROUP: worlds.group(account=account)},
        authorities={"ca_1": ServedAuthority(account, "ca_1", "PEM")},
        certificates={"cert_1": worlds.certificate("cert_1", HOST, "*.example.com", account=account)},
        reservations=tuple(reservations),
    )


def update(serving: SpecialServing, account_records: AccountRecords, names_of_tunnels: Iterable[str] = ()) -> set[str]:
    """Serve all special names of an account. Return the names of the changed resources."""
    return format_changes(change(serving, account_records, names_of_tunnels))


def change(serving: SpecialServing, account_records: AccountRecords, names_of_tunnels: Iterable[str] = ()) -> Changes:
    """Serve all special names of an account. Return the changed resources."""
    plans = (names.plan_edge(id, account_records, NOW, SERVICE) for id in account_records.edges)
    special = tuple(plan for plan in plans if plan and names.is_special_edge(plan.edge))
    ports = (names.plan_port(str(port), account_records, NOW, SERVICE) for port in range(20000, 20003))
    tunnels = (names.plan_name(name, account_records, NOW, SERVICE) for name in names_of_tunnels)
    special_plans = SpecialPlans(special, tuple(tunnels), tuple(port for port in ports if port.edge or port.tunnel))
    return serving.update(special_plans, AccountView(account_records, SERVICE))


def format_changes(changes: Changes) -> set[str]:
    """Return the changed resources, and with a minus those that are removed."""
    lines = (f"{'' if resource else '-'}{':'.join(filter(None, key))}" for key, resource in changes.items())
    return {re.sub(r"/[0-9a-f]{12}$", "/DIGEST", line) for line in lines}


def edge(host: str = HOST, id: str = "edghts_1", **more: Any) -> ServedEdge:
    return worlds.edge(worlds.route(), id=id, hosts=(host,), **more)


UPSTREAM = {f"listener:https:{HOST}", f"cluster:name/{HOST}", "listener:edge/edghts_1/upstream"}
MUTUAL = {f"listener:https:{HOST}", f"cluster:name/{HOST}", "listener:edge/edghts_1/DIGEST"}


@pytest.mark.parametrize(
    ("served_edge", "expected"),
    [
        (edge(), set()),
        (edge(version="1.2"), set()),
        (edge(version="1.3"), {f"listener:https:{HOST}"}),
        (edge(authorities=["ca_1"]), MUTUAL),
        (edge(authorities=["ca_2"]), set()),
        (edge(terminate_at="upstream"), UPSTREAM),
    ],
)
def test_each_kind_of_edge_has_what_its_handshakes_need(
    serving: SpecialServing, served_edge: ServedEdge, expected: set[str]
) -> None:
    changed_names = update(serving, records(served_edge))
    assert {name for name in changed_names if not name.startswith("cluster:stream")} == expected


@pytest.mark.parametrize("is_reserved", [True, False])
def test_only_reserved_names_with_tls_upstream_may_answer_challenges(*, is_reserved: bool) -> None:
    reservations = [ServedReservation(A, "rd_1", HOST, is_proved=True)] if is_reserved else []
    build = https_listener.build_special_part if is_reserved else https_listener.build_unreserved_special_part
    expected, tunnel = build(HOST, https_listener.INTERNAL, SETTINGS), worlds.tunnel(name=HOST, proto="tls")
    for account_records, names_of_tunnels in (
        (records(edge(terminate_at="upstream"), reservations=reservations), []),
        (records(tunnels=[tunnel], reservations=reservations), [HOST]),
    ):
        assert change(SpecialServing(SETTINGS, "PEM"), account_records, names_of_tunnels)[expected.key] == expected


def test_a_tunnel_with_tls_passed_through_has_a_listener_and_no_certificate(serving: SpecialServing) -> None:
    tunnel = worlds.tunnel(name=HOST, proto="tls")
    resources = {f"listener:https:{HOST}", f"cluster:name/{HOST}", "listener:tunnel/tn_1"}
    assert update(serving, records(tunnels=[tunnel]), [HOST]) == resources
    assert update(serving, records(), [HOST]) == {f"-{name}" for name in resources}


def test_ports_of_tunnels_and_edges_have_listeners(serving: SpecialServing) -> None:
    tunnel = worlds.tunnel(name=PORT, proto="tcp")
    assert update(serving, records(tunnels=[tunnel])) == {"listener:port/20001"}
    tcp = worlds.edge(id="edgtcp_1", hosts=[PORT], backend=GROUP)
    assert "listener:port/20001" in update(serving, records(tcp, tunnels=[tunnel]))
    assert "-listener:port/20001" in update(serving, records())


@pytest.mark.parametrize(
    "fields",
    [
        {"email_domains": ("example.com",)},
        {"teams": ("acme/core",), "organizations": ("acme",)},
        {"client_id": "other"},
        {"provider": "github"},
        {"cookie_prefix": "own."},
        {"options_passthrough": True},
        {"inactivity_timeout": 60, "maximum_duration": 600, "auth_check_interval": 300},
    ],
    ids=lambda values: next(iter(values)),
)
def test_a_changed_module_sends_one_extension_one_route_resource_and_no_listener(
    serving: SpecialServing, fields: Mapping[str, Any]
) -> None:
    serving.public_keys = [{"kty": "EC", "kid": "k"}]
    rule = SignInRule("google", "digest", A, "edghts_1", "edghtsrt_1", client_id="app")
    first_records, changed_records = (
        records(build_guarded_edge(oauth_rule)) for oauth_rule in (rule, replace(rule, digest="other", **fields))
    )
    assert "extension:sign-in/edghts_1" in update(serving, first_records)
    assert update(serving, changed_records) == {"extension:sign-in/edghts_1"}
    before, after = (resources_of_name(account_records) for account_records in (first_records, changed_records))
    assert (before.clusters, before.secret) == (after.clusters, after.secret)
    assert before.scope != after.scope  # the only resource with routes of the name


def build_guarded_edge(rule: SignInRule) -> ServedEdge:
    """Return an edge whose route has OAuth."""
    route = worlds.route()
    return worlds.edge(replace(route, modules=extended(route.modules, oauth=rule)), id="edghts_1", hosts=(HOST,))


def resources_of_name(account_records: AccountRecords) -> NameResources:
    plan = names.plan_name(HOST, account_records, NOW, SERVICE)
    return build_name_resources(plan, None, AccountView(account_records, SERVICE), "PEM", SETTINGS)


def test_an_update_without_a_difference_changes_nothing(serving: SpecialServing) -> None:
    account_records = records(edge(authorities=["ca_1"]), edge("b.tunnels.localhost", "edghts_2", version="1.3"))
    assert update(serving, account_records)
    assert update(serving, account_records) == set()


def test_an_account_without_special_names_leaves_nothing(serving: SpecialServing) -> None:
    update(serving, records())
    before = len(pickle.dumps(serving))
    tunnel = worlds.tunnel("tn_2", name=PORT, proto="tcp")
    update(serving, records(edge(authorities=["ca_1"]), tunnels=[tunnel]))
    update(serving, records())
    assert len(pickle.dumps(serving)) == before


def test_a_name_that_passes_to_another_account_is_not_removed(serving: SpecialServing) -> None:
    for account, order in ((A, (A, B)), (B, (B, A))):
        first, second = (
            records(edge(id=f"edghts_{account[-1]}", authorities=["ca_1"]), account=account) for account in order
        )
        update(serving, first)
        update(serving, second)
        changed_names = update(serving, replace(first, edges={}))
        assert changed_names == {f"-listener:edge/edghts_{account[-1]}/DIGEST"}
        update(serving, replace(second, edges={}))


def test_normal_names_below_a_special_wildcard_are_sent_to_the_shared_chain(serving: SpecialServing) -> None:
    proved = ServedReservation(A, "rd_1", "*.example.com", is_proved=True)
    special = edge("*.example.com", authorities=["ca_1"])
    other = edge("x.example.com", "edghts_2")
    changed_names = update(serving, records(special, other, reservations=[proved]))
    assert {"listener:https:*.example.com", "listener:https:x.example.com"} <= changed_names
    stricter = replace(other, modules=special.modules)
    assert "listener:https:x.example.com" in update(serving, records(special, stricter, reservations=[proved]))
    assert "listener:https:x.example.com" not in update(serving, records(special, stricter, reservations=[proved]))


def test_blocked_networks_are_refused_by_all_listeners_of_bytes(serving: SpecialServing) -> None:
    tunnel = worlds.tunnel(name=PORT, proto="tcp")
    update(serving, records(edge(authorities=["ca_1"]), tunnels=[tunnel]))
    rules = {"extension:blocked", "extension:blocked/bytes"}
    assert format_changes(serving.block(["192.0.2.0/24"], [])) == {*rules, "listener:port/20001:blocked"}
    account_records = records(
        edge(authorities=["ca_1"]), tunnels=[tunnel, worlds.tunnel("tn_2", name=HOST, proto="tls")]
    )
    assert "listener:tunnel/tn_2:blocked" in update(serving, replace(account_records, edges={}), [HOST])


def test_the_clusters_of_gateways_are_those_of_byte_tunnels(serving: SpecialServing) -> None:
    account_records = records(tunnels=[worlds.tunnel(name=PORT, proto="tcp"), worlds.tunnel("tn_2", name=HOST)])
    plans = SpecialPlans(ports=(names.plan_port("20001", account_records, NOW, SERVICE),))
    view = AccountView(account_records, SERVICE)
    assert [cluster.key.name for cluster in serving.build_clusters(plans, view)] == ["gw-1/bytes"]
    assert serving.build_clusters(SpecialPlans(), view) == []
