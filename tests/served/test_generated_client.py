"""A client that a common generator makes of the document: nothing of it is dropped, and it works."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chalicelib import ids
from tests.conftest import ROOT, Served
from tests.needs import need
from tests.openapi.test_document import OPERATIONS

PACKAGE = "tunnel_edge_client"
BACKENDS = f"{PACKAGE}.api.weighted_backends"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the package, which `make client` refuses to write where the generator warns of anything."""
    folder = tmp_path_factory.mktemp("client")
    need("the environment of make")
    subprocess.run(["make", "client", f"CLIENT={folder}"], cwd=ROOT, check=True, timeout=60)
    sys.path.insert(0, str(folder))
    yield folder / PACKAGE
    sys.path.remove(str(folder))


@pytest.fixture
def client(generated: Path, served: Served) -> Any:
    """The generated client, with the key of a fresh account."""
    caller = served.newcomer().client()
    return import_module(PACKAGE).AuthenticatedClient(caller.transport.base_url, caller.token)


def test_it_has_every_operation_of_the_document(generated: Path) -> None:
    files = {file.stem for file in generated.glob("api/*/*.py")} - {"__init__"}
    assert files == {operation["operationId"] for *_, operation in OPERATIONS}


def test_it_creates_lists_in_pages_changes_and_deletes(client: Any) -> None:
    models = import_module(f"{PACKAGE}.models")

    def call(operation: str, *arguments: str, **parameters: Any) -> Any:
        function = import_module(f"{BACKENDS}.{operation}").sync
        return function(*arguments, client=client, service_version="2", **parameters)

    child = ids.new("bkdhr")
    weights = models.WeightedBackendCreateBackendsType0.from_dict({child: 7})
    first = call("create_weighted_backend", body=models.WeightedBackendCreate(description="a", backends=weights))
    second = call("create_weighted_backend", body=models.WeightedBackendCreate())
    address = f"{client._base_url}/backends/weighted"
    assert first == models.WeightedBackend(
        id=first.id,
        uri=f"{address}/{first.id}",
        created_at=first.created_at,
        description="a",
        metadata="",
        backends=models.WeightedBackendBackends.from_dict({child: 7}),
    )

    after = f"{address}?before_id={second.id}&limit=1"
    page = call("list_weighted_backends", limit=1)
    assert page == models.WeightedBackendList(uri=address, next_page_uri=after, backends=[second])
    page = call("list_weighted_backends", limit=1, before_id=second.id)
    assert page == models.WeightedBackendList(uri=address, next_page_uri=None, backends=[first])

    changed = call("update_weighted_backend", first.id, body=models.WeightedBackendUpdate(metadata="b"))
    assert changed.to_dict() == {**first.to_dict(), "metadata": "b"}
    assert call("get_weighted_backend", first.id) == changed

    deleted = import_module(f"{BACKENDS}.delete_weighted_backend").sync_detailed(
        first.id, client=client, service_version="2"
    )
    assert (deleted.status_code, deleted.content) == (204, b"")
    refused = call("get_weighted_backend", first.id)
    assert isinstance(refused, models.Error)
    assert (refused.error_code, refused.status_code) == ("not_found", 404)
