"""The backend of edges and routes (SPEC 2.9, 4.8) by its own rules; what all modules share is tested once."""

import pytest

from chalicelib import ids
from chalicelib.modules import backend
from tests.modules.samples import anywhere, on_a_holder, ref
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client

BACKEND = next(module for module in backend.MODULES if module.home == "/edges/tls/{id}")

KINDS = {"bkdwd": "/backends/weighted", "bkdhr": "/backends/http_response", "bkdtg": "/backends/tunnel_group"}
DETACHED = {"enabled": True, "backend": None}


def test_a_backend_is_put_read_and_deleted(admin: Client) -> None:
    address, id = anywhere(BACKEND), ids.new("bkdhr")
    response = {"enabled": True, "backend": ref("/backends/http_response", id)}
    put = admin.put(address, {"enabled": True, "backend_id": id})
    assert (put.status, put.json) == (200, response)
    read = admin.get(address)
    assert (read.status, read.json) == (200, response)
    deleted = admin.delete(address)
    assert (deleted.status, deleted.text) == (204, "")
    assert admin.get(address).status == 404


@pytest.mark.parametrize("prefix", KINDS)
def test_every_kind_of_backend_is_shown_as_a_ref(admin: Client, prefix: str) -> None:
    id = ids.new(prefix)
    answer = admin.put(anywhere(BACKEND), {"backend_id": id})
    assert answer.json == {"enabled": True, "backend": ref(KINDS[prefix], id)}


def test_a_ref_leads_to_the_backend(admin: Client) -> None:
    backend = admin.create("/backends/weighted", {"description": "d"})
    response = admin.put(on_a_holder(admin, BACKEND), {"backend_id": backend["id"]}).json["backend"]
    assert response == {"id": backend["id"], "uri": backend["uri"]}
    assert admin.get(response["uri"].removeprefix("http://localhost")).json == backend


@pytest.mark.parametrize("nothing", [{"backend_id": None}, {"backend_id": ""}, {}])
def test_null_detaches_the_backend(admin: Client, nothing: dict[str, object]) -> None:
    address = anywhere(BACKEND)
    admin.put(address, {"backend_id": ids.new("bkdwd")})
    assert admin.put(address, nothing).json == DETACHED
    assert admin.get(address).json == DETACHED


@pytest.mark.parametrize("id", ["bkdwd", "bkdwd_short", "ca_2TfXCSmBHSvnQdwvT1fBtQ1mFEY", "x"])
def test_another_id_is_refused(admin: Client, id: str) -> None:
    answer = admin.put(anywhere(BACKEND), {"backend_id": id})
    assert_invalid(answer, {"backend_id": "must be the id of a backend (bkd…_…)"})


@pytest.mark.parametrize("id", [1, True, {"id": "x"}, []])
def test_a_backend_is_named_by_a_string(admin: Client, id: object) -> None:
    assert_invalid(admin.put(anywhere(BACKEND), {"backend_id": id}), {"backend_id": "must be a string"})


def test_a_ref_is_not_asked_for(admin: Client) -> None:
    answer = admin.put(anywhere(BACKEND), {"backend": ref("/backends/weighted", ids.new("bkdwd"))})
    assert_invalid(answer, {"backend": "is not a field here; known: enabled, backend_id"})


def test_strict_references_need_a_backend_of_the_account(
    admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    address = on_a_holder(admin, BACKEND)
    known = admin.create("/backends/weighted", {})["id"]
    response = {"enabled": True, "backend": ref("/backends/weighted", known)}
    assert admin.put(address, {"backend_id": known}).json == response
    for unknown in (ids.new("bkdwd"), ids.new("bkdxy"), stranger.create("/backends/weighted", {})["id"]):
        answer = admin.put(address, {"backend_id": unknown})
        details = {"backend_id": f"{unknown} is not known"}
        assert_refused(answer, 400, "unknown_reference", "'backend_id' names nothing.", details)
        assert admin.get(address).json == response
    assert admin.put(address, {"backend_id": None}).json == DETACHED
