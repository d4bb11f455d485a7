"""The clusters of tunnel groups: addresses, identities, weights, and who learns the visitor's address."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from edge.envoy import clusters
from edge.envoy.resources import Resource
from tests.edge.envoy import messages
from tests.edge.envoy.edge_values import SETTINGS, planned
from tests.edge.plan.worlds import GATEWAY, GROUP, tunnel


def test_a_groups_tunnels_share_an_address_and_differ_by_their_name() -> None:
    members = [(tunnel("tn_1"), GATEWAY), (tunnel("tn_2"), GATEWAY)]
    http1, http2 = clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)
    body = messages.decode(http1)
    (endpoints,) = body["load_assignment"]["endpoints"]
    address = {"socket_address": {"address": "192.0.2.1", "port_value": 4433}}
    assert endpoints["lb_endpoints"] == [
        {"endpoint": {"hostname": id, "address": address}} for id in ("tn_1", "tn_2")
    ]  # fmt: skip
    tls = body["transport_socket"]["typed_config"]
    assert tls["auto_host_sni"] is True
    names = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert [name["matcher"]["exact"] for name in names] == ["gw-1"]
    assert (http1.key.name, http2.key.name) == (f"group/{GROUP}", f"group/{GROUP}/http2")


def who_hears(body: Any) -> str:
    """Return who hears from Envoy of the visitor of a connection: nobody, the gateway, or the tunnel too."""
    socket = body["transport_socket"]
    if not socket["name"].endswith("upstream_proxy_protocol"):
        return "nobody"
    return (
        "the gateway"
        if 0xE1 in [tlv["type"] for tlv in socket["typed_config"]["config"].get("added_tlvs", [])]
        else "all"
    )


def test_a_groups_tunnels_are_believed_at_all_their_gateways() -> None:
    members = [(tunnel("tn_1", gateway="gw-2"), replace(GATEWAY, id="gw-2")), (tunnel("tn_2"), GATEWAY)]
    body = messages.decode(clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)[0])
    context = body["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"]
    assert [name["matcher"]["exact"] for name in context["match_typed_subject_alt_names"]] == ["gw-1", "gw-2"]


@pytest.mark.parametrize(
    ("of_group", "heard_by", "idle_timeouts"),
    [
        (clusters.build_group_clusters, {"": "nobody", "/http2": "the gateway"}, ["60s", "5s"]),
        (clusters.build_proxied_group_clusters, {"/proxied": "all", "/proxied/http2": "all"}, ["5s", "5s"]),
    ],
)
def test_where_a_connection_says_whose_it_is_it_is_kept_for_less(
    of_group: Callable[..., list[Resource]], heard_by: Mapping[str, str], idle_timeouts: list[str]
) -> None:
    bodies = [messages.decode(cluster) for cluster in of_group(GROUP, [(tunnel("tn_1"), GATEWAY)], "PEM", SETTINGS)]
    assert {body["name"].removeprefix(f"group/{GROUP}"): who_hears(body) for body in bodies} == heard_by
    options = [next(iter(body["typed_extension_protocol_options"].values())) for body in bodies]
    assert [option["common_http_protocol_options"]["idle_timeout"] for option in options] == idle_timeouts


@pytest.mark.parametrize(("is_proxied", "heard_by"), [(False, "the gateway"), (True, "all")])
def test_the_groups_of_a_stream_share_by_weight_and_hear_of_visitors(is_proxied: bool, heard_by: str) -> None:
    plan = replace(planned(id="edgtls_1", backend=GROUP), is_proxied=is_proxied)
    groups = [(GROUP, 3, [(tunnel("tn_1"), GATEWAY)]), ("bkdtg_2", 1, [])]
    body = messages.decode(clusters.build_stream_cluster(plan, groups, "PEM", SETTINGS))
    shares = body["load_assignment"]["endpoints"]
    by_group = [
        (share["locality"]["sub_zone"], share["load_balancing_weight"], share.get("lb_endpoints", []))
        for share in shares
    ]
    assert [(id, weight, len(endpoints)) for id, weight, endpoints in by_group] == [(GROUP, 3, 1), ("bkdtg_2", 1, 0)]
    assert (body["common_lb_config"], who_hears(body)) == ({"locality_weighted_lb_config": {}}, heard_by)


def test_a_group_without_tunnels_believes_no_gateway() -> None:
    body = messages.decode(clusters.build_group_clusters(GROUP, [], "PEM", SETTINGS)[0])
    context = body["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"]
    assert [name["matcher"]["exact"] for name in context["match_typed_subject_alt_names"]] == ["none"]
