"""The backend of edges and routes (SPEC 2.9, 4.8) by its own rules; what all modules share is tested once."""

import pytest

from chalicelib import ids
from chalicelib.modules import backend
from tests.modules.samples import anywhere, ref
from tests.refusals import assert_invalid
from tests.transports import Client

BACKEND = next(module for module in backend.MODULES if module.home == "/edges/tls/{id}")

KINDS = {"bkdwd": "/backends/weighted", "bkdhr": "/backends/http_response", "bkdtg": "/backends/tunnel_group"}
DETACHED = {"enabled": True, "backend": None}


def test_every_kind_of_backend_is_shown_as_a_ref(admin: Client) -> None:
    address = anywhere(BACKEND)
    for id, path in ((ids.new(prefix), path) for prefix, path in KINDS.items()):
        assert admin.put(address, {"backend_id": id}).json == {"enabled": True, "backend": ref(path, id)}


@pytest.mark.parametrize("body", [{"backend_id": None}, {"backend_id": ""}, {}])
def test_null_detaches_the_backend(admin: Client, body: dict[str, object]) -> None:
    address = anywhere(BACKEND)
    admin.put(address, {"backend_id": ids.new("bkdwd")})
    assert admin.put(address, body).json == DETACHED
    assert admin.get(address).json == DETACHED


@pytest.mark.parametrize("id", ["bkdwd", "bkdwd_short", "ca_2TfXCSmBHSvnQdwvT1fBtQ1mFEY", "x", 1, True, {"id": "x"}])
def test_another_id_is_refused(admin: Client, id: object) -> None:
    rule = "must be the id of a backend (bkd…_…)" if isinstance(id, str) else "must be a string"
    assert_invalid(admin.put(anywhere(BACKEND), {"backend_id": id}), {"backend_id": rule})
