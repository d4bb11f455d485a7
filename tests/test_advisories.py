"""What is pinned is looked up, all of it; a service that looked nothing up is no service that found nothing."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from infra.advisories import list_pins
from tests.conftest import ROOT, free_port

# In the form that OSV documents for a batch: an advisory has an id and the time of its last change.
KNOWN: Mapping[str, Any] = {
    "vulns": [
        {"id": "GHSA-462w-v97r-4m45", "modified": "2025-05-15T05:43:42.146345Z"},
        {"id": "PYSEC-2019-217", "modified": "2024-11-21T14:22:52.913287Z"},
    ]
}
URLLIB3 = {"vulns": [{"id": "GHSA-48p4-8xcf-vxj5", "modified": "2025-06-18T17:58:32.478229Z"}]}


@contextmanager
def osv(answers: Mapping[str, Any], *, lost_count: int = 0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the address of a service with these answers by name and version, and what it was asked."""
    all_queries: list[dict[str, Any]] = []

    class Recorded(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            all_queries.extend(queries)
            results = [
                answers.get("{name} {version}".format(**query["package"], version=query["version"]), {})
                for query in queries
            ][lost_count:]
            content = json.dumps({"results": results}).encode()
            self.send_response(200 if self.path == "/v1/querybatch" else 404)
            self.send_header("Content-Length", f"{len(content)}")
            self.end_headers()
            self.wfile.write(content)

        def log_request(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", all_queries
        finally:
            server.shutdown()


def look(service: str) -> tuple[int, str, str]:
    process = subprocess.run(
        [sys.executable, "-m", "infra.advisories", service], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    return process.returncode, process.stdout, process.stderr


def test_all_that_is_pinned_for_any_python_and_in_any_lock_file_is_looked_up() -> None:
    with osv({"jinja2 2.4.1": KNOWN}) as (service, queries):
        count = len(list_pins(ROOT))
        assert look(service) == (0, f"None of {count} packages has a known advisory.\n", "")
    assert len(queries) == count + 1 > 200
    names = {(query["package"]["ecosystem"], query["package"]["name"]) for query in queries}
    assert {("PyPI", "pydantic-core"), ("PyPI", "ministack"), ("PyPI", "zizmor"), ("npm", "openapi-fetch")} <= names
    assert len({query["version"] for query in queries if query["package"]["name"] == "google-re2"}) == 2


def test_an_advisory_fails_and_is_named() -> None:
    pins = list_pins(ROOT)
    urllib3 = next(pin for pin in pins if pin.name == "urllib3")
    with osv({"jinja2 2.4.1": KNOWN, f"urllib3 {urllib3.version}": URLLIB3}) as (service, _):
        status, output, err = look(service)
    assert (status, output) == (1, f"urllib3 {urllib3.version} (PyPI): GHSA-48p4-8xcf-vxj5\n")
    assert err.startswith(f"1 of {len(pins)} packages have known advisories: ")


def test_a_service_that_looks_nothing_up_fails() -> None:
    with osv({}) as (service, _):
        assert look(service) == (
            1,
            "",
            f"{service} returned no advisory for jinja2, which has some: do not trust its other answers.\n",
        )


def test_a_service_that_leaves_something_out_fails() -> None:
    with osv({"jinja2 2.4.1": KNOWN}, lost_count=1) as (service, _):
        count = len(list_pins(ROOT)) + 1
        assert look(service) == (
            1,
            "",
            f"{service} answered only {count - 1} of {count} queries: run the command again.\n",
        )


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_a_service_that_cannot_be_asked_fails(path: str) -> None:
    status, output, err = look(f"http://127.0.0.1:{free_port()}{path}")
    assert (status, output, err.count("\n")) == (1, "", 1)
    assert "did not answer the query for advisories" in err


def test_a_file_that_pins_nothing_is_not_passed_over(tmp_path: Any) -> None:
    (tmp_path / "requirements.txt").write_text("cryptography>=40\n")
    script = f"from infra.advisories import list_pins; import pathlib; list_pins(pathlib.Path({str(tmp_path)!r}))"
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert process.stderr.splitlines()[-1].endswith(
        "CommandError: requirements.txt pins no package that can be looked up."
    )
