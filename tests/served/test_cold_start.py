"""What a fresh process imports to answer: the file that serves the path, and what a body needs only with a body."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.http.auth import Caller
from chalicelib.route_table import FILES
from tests import gateway
from tests.conftest import ROOT, Served

HEAVY = {"boto3", "cryptography", "gmpy2", "pydantic", "pydantic_core", "re2"}
SCRIPT = f"""
import json, sys
sys.modules["OpenSSL"] = None  # the package lacks pyOpenSSL; botocore would import it, and with it cryptography
from app import app
answers = [app(event, None) for event in json.load(sys.stdin)]
print(json.dumps([[answer["statusCode"], answer["body"]] for answer in answers]))
print(json.dumps(sorted({HEAVY} & sys.modules.keys())))
"""

Request = tuple[str, str, Any]
KIND = "/backends/weighted"


@pytest.fixture
def caller() -> Caller:
    """Someone whom only the gateway's authorizer knows."""
    return Caller(ids.new("acct"), ids.new("usr"), admin=True)


def send_requests(served: Served, caller: Caller, *requests: Request) -> tuple[list[tuple[int, Any]], set[str]]:
    """Return the status and JSON that a fresh process answers to each request, and what of the heavy it imported."""
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, **served.cloud, "LOG_LEVEL": "ERROR"},
        input=json.dumps([event(caller, *request) for request in requests]),
        check=True,
        capture_output=True,
        text=True,
    )
    answers, imported = map(json.loads, process.stdout.splitlines())
    return [(status, json.loads(text) if text else None) for status, text in answers], set(imported)


def event(caller: Caller, method: str, path: str, body: Any) -> dict[str, Any]:
    proxy_event = gateway.event(method, path, {"Content-Type": "application/json"}, authorizer=caller.as_context())
    return {**proxy_event, "body": None if body is None else json.dumps(body)}


def create_resource(served: Served, caller: Caller, path: str, body: Any) -> tuple[str, set[str]]:
    """Return the path of what a fresh process created, and what it imported to do so."""
    [(status, resource)], imported = send_requests(served, caller, ("POST", path, body))
    assert status == 201, resource
    return f"{path}/{resource['id']}", imported


def test_a_body_imports_what_its_kind_needs_and_neither_reading_nor_deleting_imports_any_of_it(
    served: Served, caller: Caller
) -> None:
    address, imported = create_resource(served, caller, KIND, {"backends": {}})
    assert imported == {"pydantic", "pydantic_core"}
    authority, imported = create_resource(served, caller, "/ssh_certificate_authorities", {})  # which has a secret
    assert imported == {"cryptography", "pydantic", "pydantic_core"}
    requests = [
        ("GET", authority),
        ("GET", address),
        ("GET", KIND),
        ("GET", f"{KIND}?limit=1"),
        ("GET", f"{KIND}?limit=0"),
    ]
    requests += [("DELETE", address), ("GET", address), ("GET", "/nope")]
    answers, imported = send_requests(served, caller, *[(*request, None) for request in requests])
    assert [status for status, _ in answers] == [200, 200, 200, 200, 400, 204, 404, 404]
    assert imported == set()


@pytest.mark.parametrize(
    ("file", "limit"),
    [
        ("chalicelib.authorizer", 48),
        ("app", 85),  # what all requests need
        ("chalicelib.resources.accounts.me", 89),
        ("chalicelib.resources.backends.weighted_backends", 103),
        ("chalicelib.modules.oauth", 112),  # with the stored types of all modules
        ("chalicelib.edges.https", 157),  # with all modules
    ],
)
def test_a_fresh_process_imports_few_files_of_ours(file: str, limit: int) -> None:
    start = "chalicelib.authorizer" if file == "chalicelib.authorizer" else "app"
    script = f"""
import sys, {start}, {file}
print(*(name for name in sys.modules if name.startswith("chalicelib.")))
"""
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    imported = {*process.stdout.split()}
    assert 10 < len(imported) <= limit
    other_files = {*FILES} - {file}
    assert file == "chalicelib.edges.https" or not imported & other_files
