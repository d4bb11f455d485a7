"""The verification of webhooks on a route, as Envoy reads it."""

from chalicelib.model.edges.modules.webhook_verification import WebhookRule
from edge.envoy import v3
from edge.envoy.filters import webhooks
from edge.process.settings import Limits, Settings
from tests.edge.envoy import messages
from tests.edge.envoy.filters.routes import PLAN, TARGET


def test_a_failure_of_the_service_closes() -> None:
    webhook_filter = webhooks.build_filter(Settings(limits=Limits(max_webhook_kib=64)))
    assert webhook_filter.disabled
    config = messages.to_json(webhook_filter)["typed_config"]
    assert config["status_on_error"] == {"code": "ServiceUnavailable"}
    assert config["encode_raw_headers"] is True
    assert config["with_request_body"] == {"max_request_bytes": 65_537, "pack_as_bytes": True}
    assert not config.keys() & {"failure_mode_allow", "filter_enabled", "filter_enabled_metadata"}


def test_a_route_names_its_module_and_has_no_upgrades() -> None:
    route = v3.Route()
    webhooks.require(route, WebhookRule("GITHUB", "d"), PLAN, TARGET)
    document = messages.to_json(route)
    assert document["typed_per_filter_config"]["webhooks"]["check_settings"]["context_extensions"] == {
        "account": "acct_1",
        "edge": "edghts_1",
        "route": "edghtsrt_1",
        "webhook": "d",
    }
    assert document["route"]["upgrade_configs"] == [{"upgrade_type": "websocket", "enabled": False}]
