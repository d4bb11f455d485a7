"""GET /docs: what it sends, to whom, and what it says where the build made no page."""

import json

import pytest

from tests.conftest import ROOT
from tests.transports import Client

PAGE = ROOT / "chalicelib" / "docs.html"
LAMBDA = 6 * 1024 * 1024  # bytes of a function's answer


@pytest.mark.needs("the page of the reference")
def test_anyone_is_shown_the_page(nobody: Client) -> None:
    answer = nobody.send("GET", "/docs", Service_Version="")
    assert (answer.status, answer.text) == (200, PAGE.read_text())
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["operation-id"]


@pytest.mark.needs("the page of the reference")
def test_the_page_may_load_nothing_and_be_shown_in_no_other(nobody: Client) -> None:
    headers = nobody.get("/docs").headers
    allowed = dict(rule.partition(" ")[::2] for rule in headers["content-security-policy"].split("; "))
    assert allowed == {
        "default-src": "'none'",
        "script-src": "'unsafe-inline'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.needs("the page of the reference")
def test_the_page_is_small_enough_for_lambda() -> None:
    assert len(json.dumps(PAGE.read_text())) < LAMBDA / 3
