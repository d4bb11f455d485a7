"""The calls of the provider: each kind against the API in this process, without Terraform."""

from collections.abc import Mapping
from typing import Any

import pytest

from infra.build.openapi import examples
from tests.terraform.conftest import InProcessApi
from tests.transports import Client
from tunneledge_provider import resources
from tunneledge_provider.api import Api, ApiError
from tunneledge_provider.kinds import Kind
from tunneledge_provider.plans import plan
from tunneledge_provider.resources import UnfinishedError
from tunneledge_provider.values import State

Kinds = Mapping[str, Kind]


def configure(kind: Kind, config: Mapping[str, Any]) -> State:
    """Return a configuration as Terraform sends it: null where nothing is configured, at any depth."""
    return {attribute.name: _complete(attribute, config.get(attribute.name)) for attribute in kind.attributes}


def _complete(attribute: Any, value: Any) -> Any:
    if attribute.type != "object" or value is None:
        return value
    return {field.name: _complete(field, value.get(field.name)) for field in attribute.fields}


def apply(api: Api, kind: Kind, config: Mapping[str, Any], prior: State | None = None) -> State:
    """Plan and apply a configuration. The next plan changes nothing."""
    planned = plan(kind, configure(kind, config), prior).state
    state = resources.create(api, kind, planned) if prior is None else resources.update(api, kind, prior, planned)
    after = resources.read(api, kind, state)
    assert after is not None
    assert plan(kind, configure(kind, config), after).state == after
    return after


def test_a_resource_that_is_gone_has_no_state_and_can_be_deleted_again(api: Api, kinds: Kinds) -> None:
    kind = kinds["http_response_backend"]
    state = apply(api, kind, {"status_code": 404})
    resources.delete(api, kind, state)
    assert resources.read(api, kind, state) is None
    resources.delete(api, kind, state)


def test_a_change_of_what_is_gone_is_an_error(api: Api, kinds: Kinds) -> None:
    kind = kinds["http_response_backend"]
    state = apply(api, kind, {"status_code": 404})
    resources.delete(api, kind, state)
    with pytest.raises(ApiError, match="no resource with that id"):
        resources.update(api, kind, state, {**state, "status_code": 500})


def test_what_a_creation_does_not_accept_is_set_after_it(api: Api, kinds: Kinds) -> None:
    assert apply(api, kinds["user"], {"name": "alice", "active": False})["active"] is False


def test_modules_are_replaced_as_a_whole_and_removed(api: Api, kinds: Kinds, admin: Client) -> None:
    edge = apply(api, kinds["https_edge"], {})
    kind, route = kinds["https_edge_route"], {"edge_id": edge["id"], "match_type": "path_prefix", "match": "/"}
    filters = {"deny": ["bot"], "allow": ["good"]}
    first = apply(api, kind, {**route, "user_agent_filter": filters, "compression": {}})
    second = apply(api, kind, {**route, "user_agent_filter": {**filters, "deny": []}, "compression": {}}, first)
    assert second["user_agent_filter"] == {"enabled": True, "allow": ["good"], "deny": []}
    third = apply(api, kind, {**route, "compression": {"enabled": False}}, second)
    assert (third["user_agent_filter"], third["compression"]) == (None, {"enabled": False})
    body = admin.get(kind.item_path(third)).json
    assert (body["user_agent_filter"], body["compression"]) == (None, {"enabled": False})


def test_a_module_with_a_path_of_its_own_is_set_changed_and_removed(api: Api, kinds: Kinds) -> None:
    kind = kinds["ssh_certificate_authority"]
    first = apply(api, kind, {"policy": {"user": {"max_lifetime": 60}}})
    assert first["policy"]["user"]["max_lifetime"] == 60
    second = apply(api, kind, {"policy": {"host": {"max_lifetime": 120}}}, first)
    assert (second["policy"]["user"], second["policy"]["host"]["max_lifetime"]) == (None, 120)
    assert apply(api, kind, {}, second)["policy"] is None


def test_a_module_that_is_refused_leaves_the_new_resource_in_the_state(api: Api, kinds: Kinds) -> None:
    kind = kinds["reserved_domain"]
    config = {"domain": "app.example.com", "ip_restriction": {"ip_policy_ids": ["nothing"]}}
    with pytest.raises(UnfinishedError) as unfinished:
        apply(api, kind, config)
    assert list(unfinished.value.cause.fields) == ["ip_policy_ids.0"]
    assert unfinished.value.state["id"].startswith("rd_")
    assert unfinished.value.state["ip_restriction"] == configure(kind, config)["ip_restriction"]
    assert resources.read(api, kind, unfinished.value.state) is not None


def test_a_certificate_makes_room_for_a_policy_and_the_reverse(
    api: Api, kinds: Kinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")
    pair = examples.read()["tls_certificate"]["create"]
    certificate = apply(api, kinds["tls_certificate"], {**pair, "description": None})["id"]
    kind, domain = kinds["reserved_domain"], {"domain": "app.example.com"}
    policy = {"certificate_management_policy": {"authority": "letsencrypt"}}
    first = apply(api, kind, {**domain, "certificate_id": certificate})
    second = apply(api, kind, {**domain, **policy}, first)
    assert second["certificate_management_policy"] == {"authority": "letsencrypt", "private_key_type": "ecdsa"}
    assert second["certificate_id"] is None
    third = apply(api, kind, {**domain, "certificate_id": certificate}, second)
    assert (third["certificate_id"], third["certificate_management_policy"]) == (certificate, None)
    assert apply(api, kind, domain, third)["certificate_id"] is None


def test_parameters_of_a_sign_in_are_removed_by_an_empty_object(api: Api, kinds: Kinds) -> None:
    kind = kinds["federated_credential"]
    credential = {
        "issuer": "https://token.actions.githubusercontent.com",
        "claims": '{"repository_id": "1"}',
        "scopes": ["edges:read"],
        "owner_claim": "actor_id",
    }
    first = apply(api, kind, {**credential, "audiences": ["app"], "sign_in": {"client_id": "app"}})
    assert first["sign_in"]["client_id"] == "app"
    assert apply(api, kind, {**credential, "audiences": ["app"]}, first)["sign_in"] is None


def test_a_secret_that_a_key_does_not_see_is_no_difference(api: Api, kinds: Kinds, admin: Client) -> None:
    edge = apply(api, kinds["https_edge"], {})
    kind = kinds["https_edge_route"]
    config = {
        "edge_id": edge["id"],
        "match_type": "path_prefix",
        "match": "/",
        "webhook_verification": {"provider": "GITHUB", "secret": "known"},
    }
    state = apply(api, kind, config)
    token = admin.create("/api_keys", {"scopes": ["edges:read"]})["token"]
    assert resources.read(InProcessApi(admin.with_token(token)), kind, state) == state


def test_a_token_is_kept_and_never_answered_again(api: Api, kinds: Kinds) -> None:
    kind = kinds["api_key"]
    state = apply(api, kind, {"scopes": ["edges:read"]})
    assert state["token"]
    assert apply(api, kind, {"scopes": ["edges:read"], "description": "new"}, state)["token"] == state["token"]


def test_an_import_reads_everything_but_the_secrets_that_are_never_shown(api: Api, kinds: Kinds) -> None:
    kind, config = kinds["tls_certificate"], examples.read()["tls_certificate"]["create"]
    state = apply(api, kind, config)
    imported = resources.read(api, kind, resources.parse_import_id(kind, state["id"]))
    assert imported == {**state, "private_key_pem": None, "certificate_pem": imported and imported["certificate_pem"]}
    assert imported is not None
    planned = plan(kind, configure(kind, config), imported)
    assert planned.replaced == ()
    assert resources.update(api, kind, imported, planned.state)["private_key_pem"] == config["private_key_pem"]


@pytest.mark.parametrize("import_id", ["", "a", "a/b/c", "/b", "a/"])
def test_an_import_names_the_ids_of_the_path(kinds: Kinds, import_id: str) -> None:
    with pytest.raises(ValueError, match="has the form edge_id/id"):
        resources.parse_import_id(kinds["https_edge_route"], import_id)


def test_a_data_source_that_does_not_exist_is_an_error(api: Api, kinds: Kinds) -> None:
    kind = kinds["https_edge"]
    with pytest.raises(ApiError, match="There is no https_edge with the id edghts_1"):
        resources.look_up(api, kind, {"id": "edghts_1"})


class Statuses(Api):
    """An API whose edge has these states, one after the other."""

    def __init__(self, *states: str) -> None:
        self.states = [*states]

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {"state": self.states.pop(0), "hosts": 0}


@pytest.mark.parametrize(
    ("wait", "states", "expected"),
    [
        (None, ["waiting", "live"], "waiting"),
        (0, ["waiting", "live"], "waiting"),
        ("60", ["waiting", "waiting", "live"], "live"),
        (60, ["refused", "live"], "refused"),
    ],
)
def test_a_status_waits_while_it_is_waiting(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch, wait: Any, states: list[str], expected: str
) -> None:
    monkeypatch.setattr("tunneledge_provider.resources._POLL", 0)
    status = resources.look_up_status(Statuses(*states), kinds["tcp_edge"], {"id": "edgtcp_1", "wait_seconds": wait})
    assert (status["state"], status["wait_seconds"]) == (expected, wait)
