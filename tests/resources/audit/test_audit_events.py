"""Audit events: one for each change of each kind and module, in its transaction; none for what was refused."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource
from chalicelib.model.accounts import switching
from chalicelib.model.audit import trail
from chalicelib.model.changes import Change
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import table
from tests import records
from tests.events import PATH, page
from tests.modules.samples import SAMPLES, each_module, on_a_holder
from tests.queries import reads
from tests.refusals import assert_invalid
from tests.samples import Collection, each_editable_kind
from tests.transports import Client, key_in


def list_actions(client: Client) -> list[tuple[str, str]]:
    """Return the action and resource of each event, the oldest first."""
    return [(event["action"], event["resource_id"]) for event in page(client)][::-1]


@each_editable_kind
def test_each_change_of_a_resource_makes_one_event(admin: Client, resource: EditableResource) -> None:
    collection = Collection.of(admin, resource)
    body, noun = collection.body(), resource.kind.noun
    before = len(list_actions(admin))
    creation = admin.post(collection.path, body)
    id = creation.json["id"]
    address = f"{collection.path}/{id}"
    patch_answer = admin.patch(address, {"description": "changed"})
    assert patch_answer.status == 200, patch_answer.text
    assert admin.patch(address, {"description": "changed"}).status == 200  # changes nothing
    assert admin.patch(address, {"colour": "red"}).status == 400
    assert admin.delete(address).status == 204
    assert admin.delete(address).status == 404
    assert admin.patch(address, {"description": "new"}).status == 404
    news = list_actions(admin)[before:]
    edge_updates = [(f"{noun}.update", id)] if noun == "https_edge" and creation.json["hostports"] else []
    revocations = [entry for entry in news if entry[0] == "ssh_revocation.create"]
    assert len(revocations) == (noun in ("ssh_user_certificate", "ssh_host_certificate"))
    assert [entry for entry in news if entry not in revocations] == [
        *((f"{noun}.create", id), (f"{noun}.update", id)),
        *edge_updates,
        (f"{noun}.delete", id),
    ]
    create, update = page(admin, f"resource_id={id}")[::-1][:2]
    assert create == {
        "id": create["id"],
        "uri": f"http://localhost{PATH}/{create['id']}",
        "created_at": create["created_at"],
        "action": f"{noun}.create",
        "resource_id": id,
        "resource_uri": creation.json["uri"],
        "actor": {"type": "api_key", "key_id": create["actor"]["key_id"], "owner_id": admin.user, "name": "admin"},
        "operation_id": creation.headers["operation-id"],
        "source_ip": create["source_ip"],
        "revision": 1,
        "changed": [],
        "details": create["details"],
    }
    assert (update["changed"], update["operation_id"]) == (["description"], patch_answer.headers["operation-id"])
    assert admin.get(f"{PATH}/{create['id']}").json == create


@each_module
def test_each_change_of_a_module_makes_one_event(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    before = len(list_actions(admin))
    full, least = SAMPLES[module.path]
    for request in (full.request, least.request):
        assert admin.put(address, request).status == 200
    assert admin.put(address, {"colour": "red"}).status == 400
    assert admin.delete(address).status == 204
    assert admin.delete(address).status == 404
    news = list_actions(admin)[before:]
    noun, parent_id = news[0][0].partition(".")[0], news[0][1]
    verbs = ("replace", "replace", "delete")
    assert news == [(f"{noun}.{module.name}.{verb}", parent_id) for verb in verbs]
    assert page(admin)[0]["resource_uri"] == f"http://localhost{address}"


def test_an_account_has_no_address(admin: Client) -> None:
    switching.switch_account(Change(trail.OPERATOR), admin.account, "off")
    switching.switch_account(Change(trail.OPERATOR), admin.account, "on")
    uri_by_action = {event["action"]: event["resource_uri"] for event in page(admin)}
    assert {action for action, uri in uri_by_action.items() if not uri} == {"account.create", "account.update"}


def test_events_tell_no_free_text_and_no_secret(admin: Client) -> None:
    key = admin.create("/api_keys", {"description": "a secret of mine"})
    admin.patch(f"/api_keys/{key['id']}", {"metadata": "another secret"})
    text = admin.get(PATH).text
    assert "secret" not in text
    assert key["token"] not in text


def test_events_are_found_by_their_parameters(admin: Client) -> None:
    backend = admin.create("/backends/http_response", {})
    admin.patch(f"/backends/http_response/{backend['id']}", {"body": "new"})
    other = admin.create("/backends/weighted", {})
    actions = [event["action"] for event in page(admin, f"resource_id={backend['id']}")]
    assert actions == ["http_response_backend.update", "http_response_backend.create"]
    assert [event["resource_id"] for event in page(admin, "action=weighted_backend.create")] == [other["id"]]
    assert len(page(admin, f"actor_id={admin.user}")) == 3
    assert page(admin, f"actor_id={ids.new('usr')}") == []
    assert page(admin, "after=2100-01-01T00:00:00Z") == []
    assert len(page(admin, "before=2100-01-01T00:00:00Z&limit=1")) == len(list_actions(admin))
    answer = admin.get(f"{PATH}?after=yesterday")
    assert_invalid(answer, {"after": "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z"})


LIMIT = "must be a whole number from 1 to 100"
ACTION = "must be an action, for example api_key.create, or the beginning of one and '*', for example ssh_*"
ACTOR = "must be the id of an API key (ak_…), a federated credential (fcred_…), a user (usr_…) or a bot (bot_…)"
RESOURCE = "must be the id of a resource, for example usr_… or edghts_…"


@pytest.mark.parametrize(
    ("parameter", "values", "rule"),
    [
        ("action", ["", "ss*h", "ssh_", "x*", "**", "*.create", "api_key", "api_key.made", "API_KEY.create"], ACTION),
        ("action", ["api_keys.create", "api_key.create\n", "api_key..create", "a b*", "api_key.create.*x"], ACTION),
        ("actor_id", ["", "x", "operator", "ak_", ids.new("ssh"), ids.new("acct"), f" {ids.new('ak')}"], ACTOR),
        ("resource_id", ["", "x", "ak_x", ids.new("nothing"), ids.new("evt"), f"{ids.new('ak')}0"], RESOURCE),
        ("limit", ["", "0", "00", "05", "+5", " 5", "5 ", "5.0", "0x5", "101", "1000", "٥"], LIMIT),
    ],
)
def test_a_parameter_that_can_match_nothing_is_rejected(
    admin: Client, parameter: str, values: list[str], rule: str
) -> None:
    for value in values:
        assert_invalid(admin.get(f"{PATH}?{parameter}={quote(value)}"), {parameter: rule})


def test_every_action_of_an_event_can_be_asked_for(admin: Client) -> None:
    for path in ("/backends/weighted", "/api_keys", "/edges/tcp", "/ssh_certificate_authorities"):
        admin.create(path, {})
    admin.put(f"/edges/https/{ids.new('edghts')}/tls_termination", {})
    for event in page(admin):
        assert event in page(admin, f"action={event['action']}")
        assert event in page(admin, f"action={event['action'].rpartition('.')[0]}.*")
        assert event in page(admin, f"resource_id={event['resource_id']}")


def test_a_page_reads_hardly_more_events_than_it_shows(admin: Client) -> None:
    address = f"/backends/weighted/{admin.create('/backends/weighted', {})['id']}"
    for number in range(9):
        admin.patch(address, {"description": f"{number}"})
    by_resource, by_actor = f"&resource_id={address.rpartition('/')[2]}", f"&actor_id={key_in(admin.token)}"
    for more, read in (("", 5), (by_resource, 3), (by_actor, 3)):  # the newest page of all looks for marks
        query = f"limit=2{more}"
        with reads() as counts:
            body = admin.get(f"{PATH}?{query}").json
        assert (len(body["audit_events"]), sum(counts)) == (2, read)
        assert len(page(admin, query)) >= 10


def open_tunnel(account: str, name: str) -> str:
    tunnel = AgentTunnel(
        tunnel_session="ts", region="r", forwards_to="", endpoint="ep", proto="https", public_url=f"https://{name}"
    )
    return tunnels.open_tunnel(account, tunnel, lease=60, name=name)


def test_events_of_the_edge_lie_apart_and_are_listed_with_all_others(admin: Client) -> None:
    tunnel_ids = []
    for number in range(4):
        admin.create("/backends/weighted", {})
        tunnel_ids.append(open_tunnel(admin.account, f"{number}.tunnels.localhost"))
    assert [event.body["resource_id"] for event in table.list_newest(f"{admin.account}#{PATH}/edge")] == tunnel_ids[
        ::-1
    ]
    events = page(admin)
    assert [event["id"] for event in events] == sorted((event["id"] for event in events), reverse=True)
    assert [event["action"] for event in events[:8]] == ["tunnel.create", "weighted_backend.create"] * 4
    assert [page(admin, f"limit={limit}") for limit in (1, 2, 3, len(events))] == [events] * 4
    assert page(admin, "action=tunnel.create&limit=3") == [event for event in events if "tunnel" in event["action"]]
    assert page(admin, f"resource_id={tunnel_ids[0]}") == [events[6]]
    assert admin.get(f"{PATH}/{events[0]['id']}").json == events[0]
    assert events[0]["uri"] == f"http://localhost{PATH}/{events[0]['id']}"


def test_what_the_edge_wrote_before_it_had_a_partition_of_its_own_is_still_read(admin: Client) -> None:
    open_tunnel(admin.account, "old.tunnels.localhost")
    before = page(admin)
    (event,) = table.list_newest(f"{admin.account}#{PATH}/edge")
    records.delete(event.scope, event.id)
    records.create(replace(event, scope=f"{admin.account}#{PATH}"))
    assert page(admin) == before
    assert admin.get(f"{PATH}/{event.id}").json == before[0]


def test_an_event_from_where_the_edge_may_write_speaks_for_nobody_else(admin: Client, stranger: Client) -> None:
    """A stolen edge host can put anything into its own partitions, and index it under anything."""
    id = admin.create("/backends/weighted", {})["id"]
    scope = f"{admin.account}#{PATH}"
    event = table.read(scope, table.list_newest(scope)[0].id)
    assert event
    forged = replace(event, scope=f"{scope}/edge", id=ids.new("evt"))
    records.create(forged, replace(forged, scope=f"{stranger.account}#{PATH}/edge", id=ids.new("evt")))
    forged_event, own_event = page(admin, f"resource_id={id}")
    nobody = {"actor": {"type": "edge", "key_id": "", "owner_id": "", "name": ""}, "operation_id": "", "source_ip": ""}
    created_at = ids.time_of(forged.id)
    assert forged_event == {
        **own_event,
        "id": forged.id,
        "uri": f"http://localhost{PATH}/{forged.id}",
        "created_at": created_at,
        **nobody,
    }
    assert page(admin, f"resource_id={id}&limit=1") == [forged_event, own_event]
    assert page(admin)[0] == forged_event


def test_an_event_from_where_the_edge_may_write_hides_no_other_and_leads_nowhere_else(admin: Client) -> None:
    scope = f"{admin.account}#{PATH}"
    admin.create("/backends/weighted", {})
    (event, *_) = table.list_newest(scope)
    false_fields = {"created_at": "1970-01-01T00:00:00Z", "resource_path": "@example.com/"}
    forged = replace(event, scope=f"{scope}/edge", id=ids.new("evt"), body={**event.body, **false_fields})
    records.create(forged)
    forged_event, own_event, *_ = page(admin, f"after={event.body['created_at']}")
    assert (forged_event["id"], own_event["id"]) == (forged.id, event.id)
    assert forged_event["created_at"] == ids.time_of(forged.id)
    assert forged_event["resource_uri"] == ""


NO_RESOURCES: list[Any] = ["", "tn_", "nobody_" + "0" * 27, "tn", ids.new("zz"), 1, None, []]
SOUND = {"action": "tunnel.create", "resource_id": ids.new("tn"), "resource_path": "/tunnels/tn", "actor": {}}
NO_EVENTS: list[dict[str, Any]] = [
    {"id": "zzz"},
    {"id": "evt_"},
    {"id": "evt_" + "!" * 27},
    {"id": ids.new("evt") + "0"},
    {"body": None},
    {"body": "text"},
    {"body": []},
    {"body": {}},
    {"body": {"unknown": 1}},
    *(
        {"body": {name: value for name, value in SOUND.items() if name != missing_name}}
        for missing_name in SOUND
        if missing_name != "actor"
    ),
    *({"body": {**SOUND, "resource_id": id}} for id in NO_RESOURCES),
    *({"body": {**SOUND, name: 1}} for name in ("action", "resource_path", "changed", "details")),
    *({"body": {**SOUND, "changed": value}} for value in ("name", [1], {"a": "b"}, [["a"]], None)),
    *({"body": {**SOUND, "revision": value}} for value in ("1", -1, 1 << 60, True, b"1", None)),
    *(
        {"body": {**SOUND, "details": value}}
        for value in ("x", ["x"], {"a": 1}, {"a": b"x"}, {"a": [1]}, {"a": {"b": {"c": "d"}}}, {"a": {"x"}}, None)
    ),
    *({name: value} for name in ("revision", "parts", "unseen", "claims", "points") for value in ("x", [1])),
]


@pytest.mark.parametrize("number", range(len(NO_EVENTS)))
def test_what_is_no_event_is_passed_over_where_the_edge_may_write(
    admin: Client, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """A stolen edge host can put any record into its own partitions."""
    key, scope = key_in(admin.token), f"{admin.account}#{PATH}/edge"
    resource = admin.create("/backends/weighted", {})["id"]
    before, by_resource, by_key = page(admin), page(admin, f"resource_id={resource}"), page(admin, f"actor_id={key}")
    indexes = {"indexed": f"{admin.account}#{resource}", "acted": f"{admin.account}#{key}"}
    record = {"scope": scope, "id": ids.new("evt"), "body": SOUND, "revision": 1, **indexes, **NO_EVENTS[number]}
    dynamodb.do(Write.put(record))
    for limit in (1, 100):
        events = page(admin, f"limit={limit}")
        assert [event for event in events if event["id"] != record["id"]] == before
        assert len(page(admin, f"resource_id={resource}&limit={limit}")) in (len(by_resource), len(by_resource) + 1)
        assert len(page(admin, f"actor_id={key}&limit={limit}")) in (len(by_key), len(by_key) + 1)
        page(admin, f"action=tunnel*&limit={limit}")
    assert admin.get(f"{PATH}/{record['id']}").status in (200, 404)
    operator.main(["audit", "export", admin.account])
    assert "Traceback" not in capsys.readouterr().err


def test_numbers_and_sets_that_the_product_never_writes_are_no_event(admin: Client) -> None:
    scope, before = f"{admin.account}#{PATH}/edge", page(admin)
    for name, value in (("revision", {"N": "1.5"}), ("revision", {"NS": ["1"]}), ("body", {"BS": [b"x"]})):
        sound = dynamodb.encode({"scope": scope, "id": ids.new("evt"), "body": SOUND})
        aws.client("dynamodb").put_item(TableName="tunnel-edge", Item={**sound, name: value})
    assert page(admin) == page(admin, "limit=1") == before


def test_hundreds_of_records_that_are_no_events_hide_none(admin: Client) -> None:
    scope = f"{admin.account}#{PATH}/edge"
    first = page(admin)
    for _ in range(300):
        dynamodb.do(Write.put({"scope": scope, "id": ids.new("evt"), "body": {"junk": "x"}}))
    admin.create("/backends/weighted", {})
    assert page(admin, "limit=1")[1:] == first
    with reads() as counts:
        assert admin.get(f"{PATH}?limit=1").json["next_page_uri"]
    assert sum(counts) < 400


def test_the_operators_changes_are_told_too(admin: Client) -> None:
    operated = [event["action"] for event in page(admin) if event["actor"]["type"] == "operator"]
    assert {*operated} == {"account.create", "user.create", "api_key.create"}


def test_an_event_is_kept_for_the_days_that_are_set(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_actions(admin)
    monkeypatch.setenv("AUDIT_DAYS", "0")
    admin.create("/backends/weighted", {})
    assert list_actions(admin) == before


def test_deleting_an_edge_tells_of_its_routes(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": ["audit.example.com:443"]})
    route = admin.create(f"/edges/https/{edge['id']}/routes", {"match_type": "exact_path", "match": "/"})
    before = len(list_actions(admin))
    assert admin.delete(f"/edges/https/{edge['id']}").status == 204
    assert list_actions(admin)[before:] == [
        ("https_edge.update", edge["id"]),
        ("https_edge_route.delete", route["id"]),
        ("https_edge.delete", edge["id"]),
    ]
