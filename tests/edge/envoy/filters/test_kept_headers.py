"""Claims that an edge or a reserved domain accepts from visitors."""

from typing import Any

import pytest

from edge.envoy import v3
from edge.envoy.filters import kept_headers
from tests.edge.envoy import messages

RECORDING_FILTER, RESTORING_FILTER = "envoy.filters.http.header_to_metadata", "envoy.filters.http.header_mutation"


def record(name: str) -> Any:
    return {"header": name, "on_header_present": {"metadata_namespace": "kept", "key": name}}


def restore(name: str) -> Any:
    header = {"key": name, "value": f"%DYNAMIC_METADATA(kept:{name})%"}
    return {"append": {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}


@pytest.mark.parametrize(
    ("names", "claims"),
    [
        (["x-forwarded-for"], ["x-forwarded-for"]),
        (["x-forwarded-for", "x-real-ip"], ["x-forwarded-for", "x-real-ip"]),
        (["x-request-id", "x-forwarded-for"], ["x-forwarded-for"]),
    ],
)
def test_a_named_claim_is_recorded_and_restored(names: list[str], claims: list[str]) -> None:
    host = v3.VirtualHost()
    kept_headers.set_host_config(host, names)
    configs = messages.to_json(host)["typed_per_filter_config"]
    assert configs[RECORDING_FILTER]["request_rules"] == list(map(record, claims))
    assert configs[RESTORING_FILTER]["mutations"]["request_mutations"] == list(map(restore, claims))
    assert configs.keys() == {RECORDING_FILTER, RESTORING_FILTER}


@pytest.mark.parametrize(
    "names", [[], ["x-request-id"], ["authorization", "cookie"], ["tunnel-auth-user-email", "tunnel_auth_provider"]]
)
def test_no_other_header_is_recorded(names: list[str]) -> None:
    host = v3.VirtualHost()
    kept_headers.set_host_config(host, names)
    assert messages.to_json(host) == {}


def test_without_rules_of_a_host_nothing_is_recorded() -> None:
    document = messages.to_json(kept_headers.RECORDER)
    assert (document["name"], [*document["typed_config"]]) == (RECORDING_FILTER, ["@type"])
