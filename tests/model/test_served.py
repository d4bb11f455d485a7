"""What the live edge is told of edges: modules that are enabled, and no secret."""

from typing import Any

from chalicelib.model import served
from chalicelib.model.modules import Backend, MutualTls
from chalicelib.model.served import Modules
from chalicelib.storage.items import Item

SEALED = b"sealed"
OAUTH = {"provider": {"github": {"client_id": "app", "client_secret": SEALED}}}


def test_a_module_that_is_not_enabled_is_as_one_that_is_not_set() -> None:
    stored: dict[str, dict[str, Any]] = {
        "backend": {"backend_id": "bkdtg_1", "enabled": False},
        "oauth": {**OAUTH, "enabled": False},
    }

    assert Modules.of(stored) == Modules()


def test_a_module_without_a_word_on_it_is_enabled() -> None:
    stored: dict[str, dict[str, Any]] = {
        "backend": {"backend_id": "bkdtg_1"},
        "mutual_tls": {"certificate_authority_ids": ["ca_1"]},
    }

    assert Modules.of(stored) == Modules(
        Backend(backend_id="bkdtg_1"), MutualTls(certificate_authority_ids=["ca_1"]), None, None, ()
    )


def test_a_module_whose_enabled_is_null_is_enabled() -> None:
    stored: dict[str, dict[str, Any]] = {
        "user_agent_filter": {"deny": ["bot"], "enabled": None},
        "oauth": {**OAUTH, "enabled": None},
    }
    found = Modules.of(stored)
    assert (found.user_agent_filter is not None, found.unenforced) == (True, ("oauth",))


def test_what_cannot_be_enforced_is_named_without_its_secrets() -> None:
    found = Modules.of({"oauth": OAUTH, "traffic_policy": {"value": "{}"}, "of_the_future": {}})

    assert found == Modules(unenforced=("oauth", "of_the_future", "traffic_policy"))


def test_an_edge_has_its_routes_but_for_those_of_which_only_modules_were_set() -> None:
    edge = Item("acct_1#/edges/https", "edghts_1", {"hostports": ["a.example.com:443"]}, revision=7)
    scope = "acct_1#/edges/https/edghts_1/routes"
    route = Item(scope, "edghtsrt_1", {"match_type": "exact_path", "match": "/"})
    never_made = Item(scope, "edghtsrt_2", {}, modules={"backend": {"backend_id": "bkdtg_1"}})

    found = served.edge(edge, [route, never_made])

    assert (found.account, found.id, found.revision, found.hostports) == (
        "acct_1",
        "edghts_1",
        7,
        ("a.example.com:443",),
    )
    assert [it.id for it in found.routes] == ["edghtsrt_1"]
    assert found.terminate_at == "edge"
