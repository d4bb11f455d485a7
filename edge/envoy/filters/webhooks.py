"""The verification of webhooks, which a route enables. Pure.

Envoy buffers the body, and asks the service that can open the secret. The service does not see whether a request is an
upgrade that Envoy lets pass without its body, so such routes have no upgrades.
"""

from chalicelib.model.edges.modules.webhook_verification import WebhookRule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import parts, v3
from edge.process.settings import Limits

CLUSTER = "webhooks"
_NAME = "webhooks"
_TIMEOUT = 5.0  # seconds: a read of a record and of its secret
_NO_UPGRADE = v3.RouteAction.UpgradeConfig(upgrade_type="websocket", enabled=v3.BoolValue(value=False))


def build_filter(limits: Limits) -> v3.HttpFilter:
    """Return the filter. A request with a larger body is a 413, and one that the service cannot verify a 503.

    Envoy does not count the last part of a body, and shortens what it sends to the service. So the service gets a byte
    more than a body may have, and refuses that.
    """
    body = v3.BufferSettings(max_request_bytes=(limits.max_webhook_kib << 10) + 1, pack_as_bytes=True)
    service = v3.GrpcService(envoy_grpc=v3.GrpcService.EnvoyGrpc(cluster_name=CLUSTER), timeout=parts.seconds(_TIMEOUT))
    config = v3.ExtAuthz(
        grpc_service=service,
        transport_api_version=v3.ApiVersion.V3,
        with_request_body=body,
        status_on_error=v3.HttpStatus(code=v3.ServiceUnavailable),
        encode_raw_headers=True,  # so that a header that occurs twice is seen
    )
    return v3.HttpFilter(name=_NAME, disabled=True, typed_config=parts.pack(config))


def require(route: v3.Route, rule: WebhookRule, plan: Plan, target: RouteTarget) -> None:
    """Let only signed requests pass a route to upstreams."""
    edge = plan.edge
    facts = {"account": edge.account, "edge": edge.id, "route": target.route.id, "webhook": rule.digest}
    asked = v3.ExtAuthzPerRoute(check_settings=v3.CheckSettings(context_extensions=facts))
    route.typed_per_filter_config[_NAME].CopyFrom(parts.pack(asked))
    route.route.upgrade_configs.append(_NO_UPGRADE)
