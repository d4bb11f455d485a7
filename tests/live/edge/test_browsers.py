"""Addresses of tunnels in Chromium, over HTTP/2, with the operator's certificate and with an uploaded one."""

from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from infra.build import browser
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until
from tests.needs import need

pytestmark = needs_envoy

ECHO = """
const [done, socket] = [arguments[0], new WebSocket(`wss://${location.host}/echo`)], texts = [];
socket.onopen = () => socket.send("hello");
socket.onmessage = (event) => { texts.push(event.data); texts.length < 3 ? socket.send("again") : socket.close(1000) };
socket.onclose = (event) => done([...texts, event.code, event.wasClean]);
"""
EVENTS = """
const [done, source, events] = [arguments[0], new EventSource("/events"), []];
source.onmessage = async (event) => {
  const last = events.push(event.data) == 3;
  if (last) source.close();
  await fetch("/come"); // the server sends each when it is told that the one before has come
  if (last) done(events);
};
"""
UPLOAD = """
const [done, part] = [arguments[0], new Uint8Array(1_000_000)];
fetch("/", {method: "POST", body: new Blob(Array(20).fill(part))})
  .then((answer) => answer.text()).then(done, (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    need("chromium")
    names = "--host-resolver-rules=MAP *.tunnels.localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with browser.opened(names, "--ignore-certificate-errors") as chrome:
        chrome.set_script_timeout(60)
        yield chrome


@pytest.fixture(scope="module", params=["operators", "uploaded"])
def page(edge: Edge, origin: int, chrome: Chrome, request: pytest.FixtureRequest) -> Iterator[Chrome]:
    """Yield a browser that has opened a tunnel's address."""
    name: str = request.param
    if name == "uploaded":
        edge.upload("cert_uploaded", "acct_A", "uploaded.tunnels.localhost")
    client = edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:127.0.0.1:{origin}")
    edge.clients.remove(client)  # it stays from test to test
    until(lambda: edge.status(name, "--insecure") == "200")
    chrome.get(edge.url(name))
    assert run(chrome, "arguments[0](performance.getEntriesByType('navigation')[0].nextHopProtocol)") == "h2"
    yield chrome
    client.kill()


def run(page: Chrome, script: str) -> Any:
    """Return the value that a script passes to its callback, the last argument."""
    return page.execute_async_script(script)


def test_a_websocket_speaks_both_ways_and_ends_cleanly(page: Chrome) -> None:
    assert run(page, ECHO) == ["hello", "again", "again", 1000, True]


def test_events_come_as_they_are_sent(page: Chrome) -> None:
    assert run(page, EVENTS) == ["0", "1", "2"]


def test_twenty_megabytes_are_uploaded(page: Chrome) -> None:
    assert run(page, UPLOAD) == "20000000 bytes\n"
