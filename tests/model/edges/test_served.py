"""What the live edge is told of edges: modules that are enabled, and no secret."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges import served
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.traffic_policy import TrafficPolicyModule
from chalicelib.model.edges.served import UNREADABLE, Modules, ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names import base_names
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey
from tests.edge.edge_modules import enabled

SEALED = b"sealed"
OAUTH = {"provider": {"github": {"client_id": "app", "client_secret": SEALED}}}


def test_a_module_that_is_not_enabled_is_as_one_that_is_not_set() -> None:
    module_records: dict[str, dict[str, Any]] = {
        "backend": {"backend_id": "bkdtg_1", "enabled": False},
        "oauth": {**OAUTH, "enabled": False},
    }

    assert Modules.of(module_records, kinds.HTTPS_EDGE_ROUTES) == enabled()


def test_a_module_without_a_word_on_it_is_enabled() -> None:
    module_records: dict[str, dict[str, Any]] = {
        "backend": {"backend_id": "bkdtg_1"},
        "mutual_tls": {"certificate_authority_ids": ["ca_1"]},
    }

    assert Modules.of(module_records, kinds.TLS_EDGES) == enabled(
        BackendModule(backend_id="bkdtg_1"),
        mutual_tls=MutualTlsModule(certificate_authority_ids=["ca_1"]),
    )


def test_a_module_whose_enabled_is_null_is_malformed_and_not_off() -> None:
    module_records: dict[str, dict[str, Any]] = {
        "user_agent_filter": {"deny": ["bot"], "enabled": None},
        "oauth": {**OAUTH, "enabled": None},
    }
    assert Modules.of(module_records, kinds.HTTPS_EDGE_ROUTES) == enabled(unenforced=("oauth", "user_agent_filter"))


def test_what_cannot_be_enforced_is_named_without_its_secrets() -> None:
    modules = Modules.of({"oauth": OAUTH, "of_the_future": {}}, kinds.HTTPS_EDGE_ROUTES)

    assert modules.unenforced == ("of_the_future",)
    rule = modules.values["oauth"]
    assert (rule.provider, rule.client_id) == ("github", "app")
    assert "secret" not in vars(rule)


def test_a_module_is_enforced_only_at_kinds_that_have_it() -> None:
    module_records: dict[str, dict[str, Any]] = {
        "traffic_policy": {"value": "{}"},
        "user_agent_filter": {"deny": ["bot"]},
    }

    unenforced = {kind: Modules.of(module_records, kind).unenforced for kind in (*kinds.EDGES, kinds.HTTPS_EDGE_ROUTES)}

    assert unenforced == {
        kinds.HTTPS_EDGES: ("traffic_policy", "user_agent_filter"),
        kinds.TLS_EDGES: ("traffic_policy", "user_agent_filter"),
        kinds.TCP_EDGES: ("user_agent_filter",),
        kinds.HTTPS_EDGE_ROUTES: ("traffic_policy",),
    }
    port = Item("acct_1#/edges/tcp", "edgtcp_1", {"hostports": ["a.example.com:20000"]}, modules=module_records)
    modules = served.decode_edge(port).modules
    assert (modules.values.get("traffic_policy"), modules.unenforced) == (
        TrafficPolicyModule(value="{}"),
        ("user_agent_filter",),
    )


def test_an_edge_has_its_routes_but_for_those_of_which_only_modules_were_set() -> None:
    edge = Item("acct_1#/edges/https", "edghts_1", {"hostports": ["a.example.com:443"]}, revision=7)
    scope = "acct_1#/edges/https/edghts_1/routes"
    route = Item(scope, "edghtsrt_1", {"match_type": "exact_path", "match": "/"})
    never_made = Item(scope, "edghtsrt_2", {}, modules={"backend": {"backend_id": "bkdtg_1"}})

    served_edge = served.decode_edge(edge, [route, never_made])

    assert (served_edge.account, served_edge.id, served_edge.revision, served_edge.hostports) == (
        "acct_1",
        "edghts_1",
        7,
        ("a.example.com:443",),
    )
    assert [route.id for route in served_edge.routes] == ["edghtsrt_1"]
    assert served_edge.terminate_at == "edge"


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("mutual_tls", None),
        ("mutual_tls", 1),
        ("backend", "{}"),
        ("user_agent_filter", []),
        ("backend", {"backend_id": 7}),
        ("backend", {"backend_id": "unknown_1"}),
        ("mutual_tls", {}),
        ("mutual_tls", {"certificate_authority_ids": "ca_1"}),
        ("mutual_tls", {"certificate_authority_ids": ["ca_1", None]}),
        ("mutual_tls", {"certificate_authority_ids": ["unknown_1"]}),
        ("tls_termination", {"min_version": "1.4"}),
        ("tls_termination", {"min_version": 1}),
        ("user_agent_filter", {"deny": "bot"}),
        ("user_agent_filter", {"deny": ["bot"], "allow": [1]}),
        ("user_agent_filter", {"deny": None}),
        ("traffic_policy", {}),
        ("traffic_policy", {"value": {}}),
    ],
)
def test_a_module_that_cannot_be_understood_cannot_be_enforced(name: str, record: Any) -> None:
    kind = {"traffic_policy": kinds.TCP_EDGES, "user_agent_filter": kinds.HTTPS_EDGE_ROUTES, "backend": kinds.TLS_EDGES}
    assert Modules.of({name: record}, kind.get(name, kinds.HTTPS_EDGES)) == enabled(unenforced=(name,))


EDGE = Item(
    "acct_1#/edges/https",
    "edghts_1",
    {"hostports": ["a.example.com:443"]},
    modules={"tls_termination": {"min_version": "1.3"}},
    unique_keys=(
        UniqueKey(base_names.HOSTPORTS, "acct_1/a.example.com:443"),
        UniqueKey(base_names.KIND, "a.example.com"),
    ),
    revision=7,
)
ROUTE = Item("acct_1#/edges/https/edghts_1/routes", "edghtsrt_1", {"match_type": "exact_path", "match": "/"})


@pytest.mark.parametrize(
    ("changes", "route"),
    [
        ({"body": {}}, {}),
        ({"body": {"hostports": None}}, {}),
        ({"body": {"hostports": "a.example.com:443"}}, {}),
        ({"body": {"hostports": ["a.example.com:443", 7]}}, {}),
        ({"body": {"hostports": ["a.example.com"]}}, {}),
        ({"body": {"hostports": ["a.example.com:443"], "terminate_at": "nowhere"}}, {}),
        ({"body": {"hostports": ["a.example.com:443"], "terminate_at": []}}, {}),
        ({}, {"body": {}}),
        ({}, {"body": {"match_type": "path_regex", "match": "/"}}),
        ({}, {"body": {"match_type": "exact_path", "match": 7}}),
        ({}, {"body": {"match": "/"}}),
    ],
)
def test_an_edge_that_cannot_be_understood_is_closed_where_it_listens(changes: Any, route: Any) -> None:
    served_edge = served.decode_edge(replace(EDGE, **changes), [ROUTE, replace(ROUTE, id="edghtsrt_2", **route)])

    assert served_edge == ServedEdge("acct_1", "edghts_1", 7, ("a.example.com:443",), error=UNREADABLE)


@pytest.mark.parametrize("attributes", [{"parts": "text"}, {"parts": [1]}, {"body": []}, {"revision": "7"}])
def test_a_malformed_edge_or_route_closes_the_edge_where_it_listens(attributes: Any) -> None:
    edge = Item.from_record({**EDGE.to_record(), **attributes})
    route = Item.from_record({**ROUTE.to_record(), **attributes})

    closed = ServedEdge("acct_1", "edghts_1", 0, ("a.example.com:443",), error=UNREADABLE)
    assert served.decode_edge(edge, [ROUTE]) == closed
    assert served.decode_edge(EDGE, [ROUTE, route]) == replace(closed, revision=7)


@pytest.mark.parametrize("keys", [(), (UniqueKey("hostports", "acct_1/x"),)])
def test_an_edge_of_which_nothing_is_understood_is_still_there(keys: tuple[UniqueKey, ...]) -> None:
    edge = served.decode_edge(replace(EDGE, body={}, unique_keys=keys))

    assert edge == ServedEdge("acct_1", "edghts_1", 7, (), error=UNREADABLE)


@pytest.mark.parametrize(
    ("id", "body"),
    [
        *((f"{prefix}_1", {}) for prefix in ("bkdhr", "bkdtg", "bkdwd", "ca")),
        ("bkdhr_1", {"status_code": "200"}),
        ("bkdhr_1", {"status_code": 200, "headers": []}),
        ("bkdhr_1", {"status_code": 200, "headers": {"a": 1}}),
        ("bkdhr_1", {"status_code": 200, "body": b"x"}),
        ("bkdtg_1", {"labels": ["app"]}),
        ("bkdtg_1", {"labels": {"app": []}}),
        ("bkdwd_1", {"backends": ["bkdtg_1"]}),
        ("bkdwd_1", {"backends": {"bkdtg_1": "1"}}),
        ("bkdwd_1", {"backends": {"unknown_1": 1}}),
        ("ca_1", {"ca_pem": 7}),
        ("ca_1", {"description": "without a certificate"}),
    ],
)
def test_of_a_part_that_cannot_be_understood_the_id_alone_is_told(id: str, body: dict[str, Any]) -> None:
    part = served.decode_part(Item("acct_1#/of/its/kind", id, body))

    assert part in (ServedBackend("acct_1", id, None), ServedAuthority("acct_1", id, ""))
    assert part == served.empty_part("acct_1", id)
