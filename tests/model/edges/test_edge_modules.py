"""What the modules declare for the API and the edge."""

import dataclasses
from typing import Any

import pytest

from chalicelib import modules as api
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.enforced.enforced_modules import Modules
from tests.modules.samples import HOMES

DECLARED = {module.name: module for module in enforced_modules.EVERY}
each_module = pytest.mark.parametrize("module", enforced_modules.EVERY, ids=lambda module: module.name)


def test_a_wrong_word_in_a_declaration_would_open_something() -> None:
    def find_names(field: str) -> set[str]:
        return {name for name, module in DECLARED.items() if getattr(module, field)}

    keep_out = {"ip_restriction", "mutual_tls", "oauth", "traffic_policy", "user_agent_filter", "webhook_verification"}
    assert find_names("restricts_visitors") >= keep_out
    assert not find_names("admits_ambiguous_paths") & (keep_out - {"mutual_tls"})
    readers = {"circuit_breaker", "compression", "mutual_tls", "oauth", "request_headers", "response_headers"}
    assert find_names("needs_plaintext") >= {*readers, "user_agent_filter", "webhook_verification"}


@each_module
def test_a_module_of_routes_that_restricts_visitors_admits_no_ambiguous_path(module: EdgeModule[Any, Any]) -> None:
    if kinds.HTTPS_EDGE_ROUTES in module.parents:
        assert not (module.restricts_visitors and module.admits_ambiguous_paths)


@each_module
def test_the_api_offers_a_module_where_the_edge_enforces_it(module: EdgeModule[Any, Any]) -> None:
    offered = {
        offer.path: offer
        for offer in api.load_all()
        if offer.name == module.name and offer.home in {*HOMES, *_RESERVED}
    }
    missing = sorted({*module.paths} - offered.keys())
    assert not missing, f"chalicelib/modules/{module.name}.py lacks a Module for {', '.join(missing)}"
    assert {*offered} == {*module.paths}
    assert {offer.stored for offer in offered.values()} == {module.stored}


_RESERVED = {kinds.RESERVED_DOMAINS.item_path, kinds.RESERVED_ADDRS.item_path}


def test_a_module_without_a_function_of_the_edge_closes_what_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = dataclasses.replace(DECLARED["compression"], configures_route="")
    monkeypatch.setitem(enforced_modules._BY_NAME, "compression", planted)
    assert Modules.of({"compression": {}}, kinds.HTTPS_EDGE_ROUTES).unenforced == ("compression",)
