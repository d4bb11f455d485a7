"""Files that serve endpoints, imported by the first request of a path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chalice.app import Chalice

from chalicelib.http import middleware, registration
from chalicelib.http.middleware import ANY_METHOD
from tests import conformity
from tests.conftest import ROOT
from tests.refusals import INTERNAL, assert_refused
from tests.transports import Client, InProcess

HELLO = """
from chalicelib.http.endpoints import Endpoint

class _Hello:
    def endpoints(self):
        return (Endpoint("GET", "/hello", 200, lambda call: {"hello": call.caller.name}),)

ROUTES = _Hello()
"""
BROKEN = "import no_such_package\n"


@pytest.fixture
def client(admin: Client, own_log: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    """Return the admin at an app of two files, which nobody has imported."""
    monkeypatch.syspath_prepend(tmp_path)
    files = {"served_hello": {"/hello": "GET"}, "served_broken": {"/broken": "GET"}}
    for (file, _), source in zip(files.items(), (HELLO, BROKEN), strict=True):
        monkeypatch.delitem(sys.modules, file, raising=False)
        (tmp_path / f"{file}.py").write_text(source)
    registration.load_endpoints.cache_clear()
    app = Chalice(app_name="throw-away", configure_logs=False)
    middleware.wrap(app)
    registration.serve_files(app, files, is_open=())
    return Client(InProcess(app), admin.token, check=conformity.of_another_app)


def test_the_first_request_of_a_path_imports_its_file(client: Client) -> None:
    assert client.get("/nope").status == 404
    assert "served_hello" not in sys.modules
    assert [client.get("/hello").json for _ in range(2)] == [{"hello": "admin"}] * 2
    assert "served_hello" in sys.modules


def test_a_file_that_cannot_be_imported_fails_only_for_its_paths(client: Client) -> None:
    for _ in range(2):
        assert_refused(client.get("/broken"), 500, "internal_error", INTERNAL)
    assert client.get("/hello").status == 200


def test_other_methods_of_a_path_import_nothing(client: Client) -> None:
    answer = client.delete("/hello")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert "served_hello" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "is_early"), [("on-demand", False), ("provisioned-concurrency", True), ("snap-start", True)]
)
def test_a_process_that_starts_before_its_requests_imports_everything(kind: str, is_early: bool) -> None:
    script = """
import sys, types
sys.modules["snapshot_restore_py"] = types.SimpleNamespace(register_after_restore=print)  # of Lambda's runtime
import app
from chalicelib.route_table import FILES
print({*FILES} <= {*sys.modules})
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1", "AWS_LAMBDA_INITIALIZATION_TYPE": kind},
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout.splitlines()[-1] == f"{is_early}"


def test_every_path_of_an_app_has_a_fallback() -> None:
    app = Chalice(app_name="throw-away", configure_logs=False)
    registration.serve_files(app, {"served_hello": {"/hello": "GET"}}, is_open=())
    assert {path: {*methods} for path, methods in app.routes.items()} == {
        "/hello": {"GET", ANY_METHOD},
        "/": {ANY_METHOD},
        "/{proxy+}": {ANY_METHOD},
    }
