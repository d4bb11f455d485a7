"""Passwords of a route or tunnel, as Envoy reads them."""

import pytest

from chalicelib.model.edges.modules.basic_auth import BasicAuthRule
from edge.envoy import v3
from edge.envoy.filters import passwords
from edge.process.settings import Settings
from tests.edge.envoy import messages


def test_a_failure_of_the_service_closes() -> None:
    document = messages.to_json(passwords.build_filter(Settings()))
    assert document["disabled"] is True
    config = document["typed_config"]
    assert config["status_on_error"] == {"code": "ServiceUnavailable"}
    assert config["allowed_headers"] == {"patterns": [{"exact": "authorization"}]}
    assert config["filter_enabled_metadata"]["invert"] is True
    assert not config.keys() & {"failure_mode_allow", "filter_enabled", "with_request_body"}


@pytest.mark.parametrize("route", [v3.Route(), v3.VirtualHost()])
def test_a_route_names_its_module_and_removes_the_password(route: v3.Route | v3.VirtualHost) -> None:
    facts = {"account": "acct_1", "edge": "edghts_1", "holder": "edghtsrt_1"}
    passwords.require(route, facts, BasicAuthRule("d"))
    document = messages.to_json(route)
    configs = document["typed_per_filter_config"]
    assert configs["passwords"]["check_settings"]["context_extensions"] == {**facts, "passwords": "d"}
    assert configs["passwords/known"]["filter_context"] == {"holder": "edghtsrt_1 d"}
    assert document["request_headers_to_remove"] == ["authorization"]
