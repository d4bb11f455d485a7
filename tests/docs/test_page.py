"""GET /docs: what it sends, to whom, and that all of the document and of the conventions stands in it as text."""

import base64
import gzip
import hashlib
import html
import json
import re
from collections import Counter

import pytest

from tests.conftest import ROOT
from tests.docs.page import FILE, Page, document, words
from tests.openapi.test_document import OPERATIONS
from tests.transports import Client

pytestmark = pytest.mark.needs("the page of the reference")
SIZE = 75_000  # bytes that are sent for the first 139 operations
SIZE_OF_AN_OPERATION = 550  # more for each operation since then
ELEMENTS = 13_600  # for the first 139 operations
ELEMENTS_OF_AN_OPERATION = 98
OF_ANY_KEY = {"/me", "/api_keys/self", "/gateways"}


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


def letters(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


def digest(element: str) -> str:
    (content,) = re.findall(f"<{element}>(.*)</{element}>", FILE.read_text(), re.S)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_anyone_is_shown_the_page(nobody: Client) -> None:
    answer = nobody.send("GET", "/docs", Service_Version="")
    assert (answer.status, answer.text) == (200, FILE.read_text())
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["operation-id"]


def test_the_page_runs_its_own_script_loads_nothing_and_is_shown_in_no_other(nobody: Client) -> None:
    headers = nobody.get("/docs").headers
    allowed = dict(rule.partition(" ")[::2] for rule in headers["content-security-policy"].split("; "))
    assert allowed == {
        "default-src": "'none'",
        "script-src": digest("script"),
        "style-src": digest("style"),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_page_is_small(page: Page) -> None:
    later = len(OPERATIONS) - 139
    assert len(gzip.compress(FILE.read_bytes())) <= SIZE + SIZE_OF_AN_OPERATION * later
    assert page.elements <= ELEMENTS + ELEMENTS_OF_AN_OPERATION * later


def test_every_link_leads_to_one_place_of_the_page(page: Page) -> None:
    assert [address for address, count in Counter(page.addresses).items() if count > 1] == []
    assert {link for link in page.links if link.removeprefix("#") not in page.addresses} == {"openapi.json"}


def test_every_heading_has_an_address() -> None:
    headings = re.findall(r"<h[1-6].*?</h[1-6]>", FILE.read_text(), re.S)
    assert len(headings) > len(OPERATIONS)
    assert [heading for heading in headings if not re.search(r'><a href="#[\w/-]+">', heading)] == []


def test_every_operation_is_there_with_its_scope_its_parameters_and_its_refusals(page: Page) -> None:
    for method, path, operation in OPERATIONS:
        text = words(page.text[operation["operationId"]])
        assert f"{method} {path} " in text
        assert operation["summary"] in text
        for paragraph in operation["description"].split("\n\n"):
            assert words(paragraph.replace("`", "")) in text
        assert ("Open: requires no token and no version." in text) == ("security" in operation)
        assert ("Any key, whatever its scopes." in text) == (path in OF_ANY_KEY)
        assert ("Scope: " in text) == ("security" not in operation and path not in OF_ANY_KEY)
        for parameter in operation["parameters"]:
            assert parameter.get("name", "") in text
        assert operation["responses"].keys() - {*re.findall("[2-5][0-9][0-9]", text)} == set()


def test_every_field_is_there_with_its_meaning(page: Page) -> None:
    text = words(" ".join(page.text.values()))
    schemas = document()["components"]["schemas"]
    unused = {"ApiError", "OAuthError"}  # which the conventions tell
    assert schemas.keys() - {*page.addresses} == unused
    for name in schemas.keys() - unused:
        for field, schema in schemas[name].get("properties", {}).items():
            assert f" {field} " in text
            assert words(schema["description"].replace("`", "")) in text, (name, field)


def test_a_field_is_required_in_a_body_and_may_be_absent_from_an_answer() -> None:
    schemas, bodies = (
        document()["components"]["schemas"],
        json.dumps([operation.get("requestBody") for _, _, operation in OPERATIONS]),
    )
    schema_texts = dict(re.findall(r'<div class="schema" id="(\w+)">(.*?)</div>', FILE.read_text(), re.S))
    marked = {name: re.findall(r"<dt><code>(\w+)</code>.*?(, <b>required|, may be absent|)(?:</b>)?</i></dt>", text)
              for name, text in schema_texts.items()}  # fmt: skip
    body_schemas = {name for name in schemas if f'/{name}"' in bodies}
    assert {name: dict(fields) for name, fields in marked.items() if name in body_schemas} == {
        name: {
            field: ", <b>required" if field in schemas[name].get("required", ()) else ""
            for field in schemas[name].get("properties", {})
        }
        for name in body_schemas
    }
    assert dict(marked["Tunnel"])["proto"] == dict(marked["SSHCertificateAuthority"])["key_size"] == ", may be absent"
    assert dict(marked["Tunnel"])["id"] == dict(marked["SSHCredential"])["description"] == ""


def test_the_responses_of_the_document_are_shown() -> None:
    text, count = FILE.read_text(), 0
    for _, _, operation in OPERATIONS:
        for status, answer in operation["responses"].items():
            of = answer.get("content", {}).get("application/json", {})
            if status < "400" and "example" in of:
                start = f'<section class="operation" id="{operation["operationId"]}"'
                section = text.partition(start)[2].partition("</section>")[0]
                (example,) = re.findall(rf"<summary>Response {status}</summary><pre><code>(.*?)</code>", section, re.S)
                assert json.loads(html.unescape(example)) == of["example"]
                count += 1
    assert count > 100


def test_required_fields_of_bodies_come_first() -> None:
    for text in re.findall(r'<div class="schema".*?</div>', FILE.read_text(), re.S):
        marks = ["<b>required" in field for field in re.findall(r"<dt>.*?</dt>", text, re.S)]
        assert marks == sorted(marks, reverse=True)


def test_every_convention_is_there(page: Page) -> None:
    page_text = letters(" ".join(page.text.values()))
    for line in (ROOT / "docs" / "conventions.md").read_text().splitlines():
        for cell in re.sub(r"\]\([^)]*\)|```json", "", line).split("|"):  # but for the places that links lead to
            assert letters(cell) in page_text
