"""The reference in Chromium: search leads to what is looked for, keys reach all, nothing is wider than the window."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from infra.build import browser
from tests import accessibility
from tests.conftest import ROOT, Served
from tests.needs import need

PATIENCE = 60  # seconds, of a machine on which other tests run


def read_log(page: Chrome) -> list[dict[str, Any]]:
    """Return the browser's own log of the page: its errors and warnings."""
    entries: list[dict[str, Any]] = page.get_log("browser")  # type: ignore[no-untyped-call]
    return entries


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    need("chromium", "the page of the reference")
    with browser.opened() as chrome:
        yield chrome


@pytest.fixture
def page(chrome: Chrome, served: Served) -> Iterator[Chrome]:
    """Yield a browser that shows the reference, and remembers nothing of earlier tests."""
    chrome.get("about:blank")
    browser.requested(chrome)
    chrome.get(f"{served.base_url}/docs")
    yield chrome
    chrome.execute_script("localStorage.clear()")


def search(page: Chrome, text: str) -> list[str]:
    """Return the addresses to which a search leads, the best first."""
    page.find_element(By.TAG_NAME, "body").send_keys("/")
    field = page.switch_to.active_element
    field.clear()
    field.send_keys(text)
    links = page.find_elements(By.CSS_SELECTOR, "#found a")
    return [str(link.get_attribute("hash")) for link in links]


def test_it_shows_every_operation_and_asks_for_nothing_but_itself(page: Chrome, served: Served) -> None:
    document = json.loads((ROOT / "chalicelib" / "documents" / "openapi.json").read_text())
    operations = browser.operations(page)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{operation['summary']}\n{method.upper()} {path}\n" in operations[operation["operationId"]]
    assert browser.requested(page) == [f"{served.base_url}/docs"]
    assert read_log(page) == []
    assert page.title == document["info"]["title"]


def test_a_search_leads_to_what_is_looked_for(page: Chrome) -> None:
    for text, address in (
        ("429", "#errors"),
        ("email_domains", "#tag/HTTPS-edge-route-OAuth"),
        ("idempotency", "#headers"),
        ("krl", "#get_ssh_certificate_authority_krl"),
        ("mutual", "#tag/HTTPS-edge-mutual-TLS"),
        ("sshca_", "#get_ssh_certificate_authority_krl"),
    ):
        assert address in search(page, text)[:3]
        page.switch_to.active_element.send_keys(Keys.ENTER)
    for text, address in (
        ("revoke", "#create_ssh_revocation"),
        ("rate limit", "#limits"),
        ("login", "#exchange_token"),
        ("rotate", "#create_api_key"),
        ("upload certificate", "#create_tls_certificate"),
        ("who changed", "#list_audit_events"),
    ):
        assert search(page, text)[0] == address
        page.switch_to.active_element.send_keys(Keys.ENTER)
        assert page.find_elements(By.CSS_SELECTOR, "#found:not([hidden])") == []


def test_the_language_stays_and_the_address_is_that_of_the_page(page: Chrome, served: Served) -> None:
    page.find_element(By.CSS_SELECTOR, "[value=Go]").click()
    page.refresh()
    figures = [
        figure for figure in page.find_elements(By.CSS_SELECTOR, "#list_api_keys figure") if figure.is_displayed()
    ]
    assert [figure.get_attribute("class") for figure in figures] == ["Go"]
    page.find_element(By.CSS_SELECTOR, "[value=curl]").click()
    assert f"BASE_URL={served.base_url} " in page.find_element(By.ID, "first-request").text
    assert "api.example.com" not in str(page.find_element(By.ID, "main").get_attribute("textContent"))


def test_the_contents_mark_what_is_read_and_show_its_operations(page: Chrome) -> None:
    with window(page, 1440):
        page.execute_script("location.hash = 'create_api_key'")
        marked = "return [...document.querySelectorAll('nav [aria-current]')].map((it) => it.hash)"
        WebDriverWait(page, PATIENCE).until(lambda _: page.execute_script(marked) == ["#create_api_key"])
        links = page.find_elements(By.CSS_SELECTOR, "nav li ul a")
        hashes = {str(link.get_attribute("hash")) for link in links if link.is_displayed()}
        assert {"#create_api_key", "#get_api_key_usage"} <= hashes
        assert "#create_user" not in hashes


def test_the_response_to_a_sample_is_unfolded(page: Chrome) -> None:
    details = page.find_element(By.CSS_SELECTOR, "#create_api_key details")
    assert details.text == "Response 201"
    details.find_element(By.TAG_NAME, "summary").click()
    assert '"token": ' in details.text


def test_a_search_for_nothing_that_is_there_says_so(page: Chrome) -> None:
    assert search(page, "xylophone") == []
    assert page.find_element(By.ID, "found").text == "Nothing found"


def test_keys_alone_reach_every_link_and_control(page: Chrome) -> None:
    """Each that is shown can be focused, and none takes itself out of the order of the Tab key."""
    script = """return [...document.querySelectorAll("a, button, input")].filter((it) => {
        it.focus()
        return it.checkVisibility() && (it.tabIndex < 0 || document.activeElement !== it)
    }).map((it) => it.outerHTML)"""
    assert page.execute_script(script) == []
    page.find_element(By.CSS_SELECTOR, "[value=curl]").send_keys(Keys.ARROW_RIGHT)
    figures = [
        figure for figure in page.find_elements(By.CSS_SELECTOR, "#list_api_keys figure") if figure.is_displayed()
    ]
    assert [figure.get_attribute("class") for figure in figures] == ["Python"]


def test_the_first_key_leads_past_the_contents(page: Chrome) -> None:
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("hash") == "#main"


@contextmanager
def window(page: Chrome, width: int) -> Iterator[None]:
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 800}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_is_wider_than_the_window(page: Chrome) -> None:
    script = """return [document.documentElement.scrollWidth, ...Array.from(
        document.querySelectorAll("main *"), (it) => it.getBoundingClientRect().right
    )].filter((right) => right > innerWidth)"""
    for width in (390, 768, 1440):
        with window(page, width):
            assert (width, page.execute_script(script)) == (width, [])


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_it_violates_no_rule_of_accessibility(page: Chrome, width: int, scheme: str) -> None:
    """The parts stand for the page, of which axe needs minutes for all operations."""
    parts = ("header", "#start", "#errors", "#create_api_key", "#delete_api_key")
    page.set_script_timeout(PATIENCE)
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    with window(page, width):
        assert accessibility.find_violations(page, *parts) == []
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_contents_open_on_a_phone_and_close_behind_a_reader_who_goes_there(page: Chrome) -> None:
    with window(page, 390):
        contents = page.find_element(By.ID, "contents")
        assert not contents.is_displayed()
        page.find_element(By.CLASS_NAME, "menu").click()
        assert contents.is_displayed()
        contents.find_element(By.LINK_TEXT, "Errors").click()
        assert not contents.is_displayed()
        top = "return document.getElementById('errors').getBoundingClientRect().top"
        WebDriverWait(page, PATIENCE).until(lambda _: 0 <= page.execute_script(top) < 844)


def test_a_sample_is_copied_as_it_stands(page: Chrome, served: Served) -> None:
    grant = {"permission": {"name": "clipboard-write"}, "setting": "granted", "origin": served.base_url}
    page.execute_cdp_cmd("Browser.setPermission", grant)
    page.execute_cdp_cmd("Browser.setPermission", {**grant, "permission": {"name": "clipboard-read"}})
    button = page.find_element(By.CSS_SELECTOR, "#list_api_keys .curl button")
    button.send_keys(Keys.ENTER)
    WebDriverWait(page, PATIENCE).until(lambda _: button.text == "Copied")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(`${error}`))"
    assert page.execute_async_script(read).startswith('curl "$BASE_URL/api_keys?limit=10" \\\n')


def test_printed_it_is_the_text_alone(page: Chrome) -> None:
    script = """return ["header", "nav", ".copy", "h1", "#errors td", ".operation pre"].filter(
        (it) => document.querySelector(it).checkVisibility()
    )"""
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    selectors = page.execute_script(script)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert selectors == ["h1", "#errors td", ".operation pre"]


def test_it_leads_to_the_document(page: Chrome, served: Served) -> None:
    page.get(f"{served.base_url}/docs")
    link = page.find_element(By.LINK_TEXT, "OpenAPI 3.1.0 document")
    assert link.get_attribute("href") == f"{served.base_url}/openapi.json"
