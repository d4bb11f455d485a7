"""The filter that verifies webhooks, which a route enables. This file does no I/O.

Envoy buffers the body, and asks the sign-in service, which can decrypt the secret. Envoy would forward an upgrade
request without waiting for the body, and the service could not recognize that the body is missing. So routes that
verify webhooks allow no upgrades.
"""

from chalicelib.model.edges.modules.webhook_verification import WebhookRule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import parts, v3
from edge.process.settings import Settings

CLUSTER = "webhooks"
_NAME = "webhooks"
_TIMEOUT = 5.0  # seconds for an answer of the sign-in service, which reads and decrypts a record
_NO_UPGRADE = v3.RouteAction.UpgradeConfig(upgrade_type="websocket", enabled=v3.BoolValue(value=False))


def build_filter(settings: Settings) -> v3.HttpFilter:
    """Return the filter, which answers 413 to bodies above the limit, and 503 if the sign-in service fails.

    Envoy does not count the last part of a body, and truncates the body that it sends to the service. So Envoy's limit
    is one byte above the largest permitted body, and the service refuses a body that has this byte.
    """
    config = parts.authorization(CLUSTER, _TIMEOUT, settings)
    config.with_request_body.max_request_bytes = (settings.limits.max_webhook_kib << 10) + 1
    config.with_request_body.pack_as_bytes = True
    config.encode_raw_headers = True  # otherwise, Envoy would join the values of a repeated header with commas
    return v3.HttpFilter(name=_NAME, disabled=True, typed_config=parts.pack(config))


def require(route: v3.Route, rule: WebhookRule, plan: Plan, target: RouteTarget) -> None:
    """Require a valid signature for requests to a route."""
    edge = plan.edge
    config = parts.check_settings(account=edge.account, edge=edge.id, route=target.route.id, webhook=rule.digest)
    route.typed_per_filter_config[_NAME].CopyFrom(config)
    route.route.upgrade_configs.append(_NO_UPGRADE)
