"""The host of the sign-in service in Envoy."""

import pytest

from edge.envoy import clusters, v3
from edge.envoy.names import sign_in_host
from edge.process.settings import Settings


def test_the_host_needs_no_account_and_only_the_service_answers() -> None:
    settings = Settings()
    resources = {(resource.key.kind, resource.key.name): resource for resource in sign_in_host.build(settings, "")}
    host = f"sign-in.{settings.tunnel_domain}"
    assert {*resources} == {
        ("cluster", "passwords"),
        ("cluster", "sign-in"),
        ("cluster", "webhooks"),
        ("listener", "sign-in"),
        ("cluster", f"name/{host}"),
        ("listener", "https"),
    }
    at_once = v3.Cluster.FromString(resources[("cluster", "webhooks")].encoded).circuit_breakers.thresholds[0]
    assert (at_once.max_requests.value, at_once.max_pending_requests.value) == (64, 64)
    listener = v3.Listener.FromString(resources[("listener", "sign-in")].encoded)
    manager = v3.HttpConnectionManager()
    listener.filter_chains[0].filters[-1].typed_config.Unpack(manager)
    (virtual_host,) = manager.route_config.virtual_hosts
    assert [*virtual_host.domains] == [host]
    (route,) = virtual_host.routes
    assert (route.match.prefix, route.direct_response.status) == ("/", 404)
    route_config = v3.ExtAuthzPerRoute()
    route.typed_per_filter_config["sign-in"].Unpack(route_config)
    assert (route_config.disabled, dict(route_config.check_settings.context_extensions)) == (False, {"host": "sign-in"})
    assert "sign-in" in [http_filter.name for http_filter in manager.http_filters]


@pytest.mark.parametrize(
    ("folder", "path"), [("", "sign-in.sock"), ("/run/tunnel-edge-sign-in", "/run/tunnel-edge-sign-in/sign-in.sock")]
)
def test_envoy_finds_the_socket_in_its_own_folder_or_in_that_of_the_service(folder: str, path: str) -> None:
    built_clusters = {
        resource.key.name: resource
        for resource in sign_in_host.build(Settings(sign_in_dir=folder), "")
        if resource.key.kind == "cluster"
    }
    for name in ("sign-in", "passwords", "webhooks"):
        (group,) = v3.Cluster.FromString(built_clusters[name].encoded).load_assignment.endpoints
        assert group.lb_endpoints[0].endpoint.address.pipe.path == path


def test_services_on_other_hosts_are_reached_by_mutual_tls_with_their_own_name() -> None:
    settings = Settings(sign_in_hosts=(("10.0.0.5", 4440), ("sign-in.edge.internal", 4441)))
    built_clusters = {
        resource.key.name: resource
        for resource in sign_in_host.build(settings, "authority")
        if resource.key.kind == "cluster"
    }
    for name in ("sign-in", "passwords", "webhooks"):
        cluster, tls = v3.Cluster.FromString(built_clusters[name].encoded), v3.UpstreamTlsContext()
        (group,) = cluster.load_assignment.endpoints
        addresses = [endpoint.endpoint.address.socket_address for endpoint in group.lb_endpoints]
        assert [(address.address, address.port_value) for address in addresses] == [*settings.sign_in_hosts]
        cluster.transport_socket.typed_config.Unpack(tls)
        common = tls.common_tls_context
        assert [secret_config.name for secret_config in common.tls_certificate_sds_secret_configs] == [
            clusters.LINK_SECRET
        ]
        assert common.validation_context.trusted_ca.inline_string == "authority"
        (name_matcher,) = common.validation_context.match_typed_subject_alt_names
        assert (name_matcher.matcher.exact, tls.sni) == ("sign-in", "sign-in")
