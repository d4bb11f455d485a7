"""The selector of certificates by server name."""

from edge.envoy import selector
from edge.envoy.clusters import LINK_SECRET
from tests.edge.envoy import messages

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls"


def test_certificates_are_requested_by_server_name_or_are_the_operators() -> None:
    mapper = {"@type": f"{TLS}.cert_mappers.sni.v3.SNI", "default_value": selector.OPERATOR_SECRET}
    assert messages.to_json(selector.build_selector()) == {
        "name": "envoy.tls.certificate_selectors.on_demand_secret",
        "typed_config": {
            "@type": f"{TLS}.cert_selectors.on_demand_secret.v3.Config",
            "config_source": {"ads": {}, "resource_api_version": "V3"},
            "certificate_mapper": {"name": "envoy.tls.certificate_mappers.sni", "typed_config": mapper},
        },
    }


def test_no_visitor_can_select_the_secrets_of_the_edge() -> None:
    assert min(map(len, (selector.OPERATOR_SECRET, LINK_SECRET))) > 255  # bytes of a server name in a handshake
    assert selector.OPERATOR_SECRET != LINK_SECRET
