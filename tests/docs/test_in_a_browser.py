"""The reference in Chromium: it shows every operation of the document, and asks nobody for anything."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from infra.build import browser
from tests.conftest import ROOT, Served
from tests.needs import need

PATIENCE = 60  # seconds, of a machine on which other tests run


def logged(page: Chrome) -> list[dict[str, Any]]:
    """Return the browser's own log of the page: its errors and warnings."""
    entries: list[dict[str, Any]] = page.get_log("browser")  # type: ignore[no-untyped-call]
    return entries


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads((ROOT / "chalicelib" / "openapi.json").read_text())


@pytest.fixture(scope="module")
def page(served: Served, document: Any) -> Iterator[Chrome]:
    """Yield a browser that shows the whole reference."""
    need("chromium", "the page of the reference")
    with browser.opened() as chrome:
        chrome.get(f"{served.base_url}/docs")
        count = sum(len(methods.keys() - {"parameters"}) for methods in document["paths"].values())
        WebDriverWait(chrome, PATIENCE).until(lambda _: len(browser.operations(chrome)) == count)
        assert browser.requested(chrome) == [f"{served.base_url}/docs"]
        yield chrome


def test_it_shows_every_operation_and_asks_for_nothing_but_itself(page: Chrome, document: Any) -> None:
    operations = browser.operations(page)
    for path, methods in document["paths"].items():
        for method in methods.keys() - {"parameters"}:
            operation = methods[method]
            text = operations[operation["operationId"]]
            assert operation["summary"] in text
            assert f"{method.upper()}\n{path}" in text
    assert browser.requested(page) == []
    assert logged(page) == []
    assert page.title == document["info"]["title"]


def test_its_addresses_are_those_of_the_api_also_behind_a_slash(page: Chrome, served: Served) -> None:
    page.get(f"{served.base_url}/docs/")
    link = WebDriverWait(page, PATIENCE).until(lambda _: page.find_element(By.CSS_SELECTOR, "a[download]"))
    assert link.get_attribute("href") == f"{served.base_url}/openapi.json"
    assert f"<span>{served.base_url}</span>/api_keys" in page.page_source
