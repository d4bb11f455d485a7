"""The inspector in Chromium: what other pages can do, what hostile answers can do, and how its own pages look."""

import itertools
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from infra.build import browser
from tests import accessibility
from tests.live.cli.inspecting import RunningInspector, inspecting, serving
from tests.live.edge.running import until
from tests.needs import need

REBOUND = "rebound.example"
SECRET = "s3cr3t-of-the-visitor"
REQUEST = f"GET /private HTTP/1.1\r\nhost: demo\r\nauthorization: {SECRET}\r\n\r\n".encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

_ATTACK = """
const done = arguments[arguments.length - 1];
const [origin, folder, token, used] = arguments;
const read = [];
const note = (how) => (text) => { if (text) read.push([how, String(text).slice(0, 200)]); };
const tries = [];
for (const path of ["/", used, folder, folder + "requests/1", folder + "requests/1/body/response", folder + "events"]) {
  for (const options of [{}, {credentials: "include"}, {mode: "no-cors", credentials: "include"},
                         {method: "POST", credentials: "include", body: new URLSearchParams({token})}]) {
    tries.push(fetch(origin + path, {...options, signal: AbortSignal.timeout(1500)})
      .then((answer) => answer.text()).then(note("fetch " + path)).catch(() => {}));
  }
}
tries.push(fetch(origin + folder + "requests/1/replay",
  {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({token})}).catch(() => {}));
const frame = document.createElement("iframe");
frame.src = origin + folder;
document.body.append(frame);
const form = document.createElement("form");
form.method = "post"; form.action = origin + folder + "requests/1/replay"; form.target = "sink";
form.innerHTML = '<input name="token">'; form.token.value = token;
const sink = document.createElement("iframe"); sink.name = "sink";
document.body.append(sink, form); form.submit();
const script = document.createElement("script");
script.src = origin + folder + "page.js";
tries.push(new Promise((end) => { script.onload = () => end(read.push("script")); script.onerror = end; }));
document.body.append(script);
const image = new Image(); image.src = origin + folder + "requests/1/body/response"; document.body.append(image);
const source = new EventSource(origin + folder + "events", {withCredentials: true});
source.addEventListener("row", (event) => note("events")(event.data));
const opened = window.open(origin + folder);
Promise.all(tries).then(() => setTimeout(() => {
  for (const other of [frame.contentWindow, sink.contentWindow, opened]) {
    try { note("window")(other && other.document.body.innerText); } catch (error) {}
  }
  opened?.close();
  done(read);
}, 300));
"""


class Evil(BaseHTTPRequestHandler):
    """A page of another origin."""

    cookies: list[str] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body>evil")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    need("chromium")
    rules = f"MAP {REBOUND} 127.0.0.1, MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with browser.opened(f"--host-resolver-rules={rules}", "--disable-popup-blocking") as chrome:
        chrome.set_script_timeout(20)
        yield chrome


@pytest.fixture
def running_inspector(chrome: Chrome) -> Iterator[RunningInspector]:
    with inspecting([(REQUEST, OK)]) as running_inspector:
        chrome.delete_all_cookies()
        yield running_inspector
        chrome.get("about:blank")
        chrome.get_log("browser")  # type: ignore[no-untyped-call]


def read_log(chrome: Chrome) -> list[str]:
    """Return the errors and warnings since the last call."""
    entries: list[dict[str, Any]] = chrome.get_log("browser")  # type: ignore[no-untyped-call]
    return [f"{entry['level']}: {entry['message']}" for entry in entries]


def texts(chrome: Chrome, selector: str) -> list[str]:
    """Return the texts of elements, or none while the page changes."""
    try:
        return [element.text for element in chrome.find_elements(By.CSS_SELECTOR, selector)]
    except StaleElementReferenceException:
        return []


@pytest.mark.parametrize("address", ["http://evil.example:{}", "http://127.0.0.1:{}", f"http://{REBOUND}:{{}}"])
def test_another_page_reads_nothing_and_replays_nothing(
    chrome: Chrome, running_inspector: RunningInspector, address: str
) -> None:
    used = running_inspector.link.removeprefix(running_inspector.origin)
    chrome.get(running_inspector.link)
    assert texts(chrome, "#rows .path") == ["/private"]
    access = running_inspector.inspector.access
    with serving(Evil) as port:
        chrome.get(address.format(port))
        read = chrome.execute_async_script(_ATTACK, running_inspector.origin, access.folder, access.token, used)
    assert read == []
    assert running_inspector.upstream_requests == []
    assert len([*running_inspector.journal.newest_first()]) == 1


def test_a_rebound_name_reads_nothing(chrome: Chrome, running_inspector: RunningInspector) -> None:
    chrome.get(running_inspector.link)
    port = running_inspector.origin.rpartition(":")[2]
    for target in (running_inspector.link, running_inspector.page):
        chrome.get(target.replace("127.0.0.1", REBOUND))
        assert chrome.find_elements(By.CSS_SELECTOR, "#rows") == []
        assert SECRET not in chrome.page_source
    assert port in chrome.current_url


def test_a_server_on_another_port_cannot_use_the_cookie_that_the_browser_sends_it(
    chrome: Chrome, running_inspector: RunningInspector
) -> None:
    chrome.get(running_inspector.link)
    Evil.cookies.clear()
    with serving(Evil) as port:
        chrome.get(f"http://127.0.0.1:{port}/")
    (stolen, *_) = [cookie for cookie in Evil.cookies if "te-inspector-" in cookie]
    chrome.delete_all_cookies()
    decision = running_inspector.inspector.access.decide(
        "GET", "/", [("Host", running_inspector.origin[7:]), ("Cookie", stolen)]
    )
    assert decision == "denied"


_HOSTILE_TEXTS = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</pre></td></title></textarea><svg onload=\"document.title='owned'\">",
    "javascript:document.title='owned'",
    '"><a href="javascript:document.title=\'owned\'" autofocus onfocus="document.title=\'owned\'">',
    "<style>@import url(http://evil.example/x)</style>",
    '<meta http-equiv=refresh content="0;url=http://evil.example/">',
    "<base href=http://evil.example/>",
    "{{constructor.constructor('document.title=1')()}}",
    "\u202eowned\u2066\ufeff",
)


def hostile_answers() -> Iterator[tuple[bytes, bytes]]:
    """Yield requests and answers that carry each text in each place."""
    kinds = ("text/html", "image/svg+xml", "text/javascript", "application/xhtml+xml", "text/html; charset=utf-7")
    for number, (text, kind, status) in enumerate(itertools.product(_HOSTILE_TEXTS, kinds, (200, 302, 404, 500))):
        raw = text.encode()
        in_path = "".join(f"%{byte:02x}" if byte <= 32 or byte >= 127 else chr(byte) for byte in raw).encode()
        header = raw if raw.isascii() else b"x"
        request = b"POST /%d%b HTTP/1.1\r\nhost: x\r\nx-odd: %b\r\ncontent-length: %d\r\n\r\n%b"
        answer = (
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\nlocation: %b\r\nset-cookie: a=%b\r\ncontent-length: %d\r\n\r\n%b"
        )
        yield (
            request % (number, in_path, header, len(raw), raw),
            answer % (status, header, kind.encode(), header, header, len(raw), raw),
        )


class _Tags(HTMLParser):
    """Collects tags and attributes that could run script, load something, or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wrong = [name for name, value in attrs if name.startswith("on") or str(value).startswith("javascript")]
        if wrong or tag in ("script", "style", "img", "svg", "meta", "base", "iframe", "object", "link"):
            self.active.append(tag)


def active_content(page: str) -> list[str]:
    """Return the active elements in the part of a page that shows an exchange."""
    tags = _Tags()
    tags.feed(page.partition("<main")[2])
    return tags.active


def test_two_hundred_hostile_answers_run_no_script(chrome: Chrome, running_inspector: RunningInspector) -> None:
    for request, response in hostile_answers():
        running_inspector.record(request, response)
    chrome.get(running_inspector.link)
    read_log(chrome)
    browser.requested(chrome)
    assert chrome.execute_script("return document.querySelectorAll('#rows li').length") == 201
    (cookie,) = [f"{cookie['name']}={cookie['value']}" for cookie in chrome.get_cookies()]
    for id in range(2, 202):
        assert active_content(running_inspector.read(f"requests/{id}?reveal=response.2", cookie)) == []
    for id in range(2, 202, 20):  # one of each text, as a whole page with its script
        chrome.get(f"{running_inspector.page}requests/{id}")
        assert chrome.title.startswith("POST /")
        assert texts(chrome, "h3") == ["Request", "Response"]
    running_inspector.record(*next(hostile_answers()))
    until(lambda: texts(chrome, "#rows li:first-child .method") == ["POST"])
    assert read_log(chrome) == []
    assert {url.partition("/requests")[0].rpartition("/")[0] for url in browser.requested(chrome)} <= {
        running_inspector.page.rstrip("/"),
        running_inspector.page.rstrip("/").rpartition("/")[0],
    }


def test_the_list_is_live_and_the_keyboard_suffices(chrome: Chrome, running_inspector: RunningInspector) -> None:
    chrome.get(running_inspector.link)
    until(lambda: texts(chrome, "#state") == ["live"])
    running_inspector.record(REQUEST.replace(b"/private", b"/second"), OK)
    until(lambda: texts(chrome, "#rows .path") == ["/second", "/private"])
    body = chrome.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    chrome.switch_to.active_element.send_keys("priv")
    until(lambda: [text for text in texts(chrome, "#rows .path") if text] == ["/private"])
    chrome.execute_script("document.activeElement.blur()")
    body.send_keys("j")
    chrome.switch_to.active_element.send_keys(Keys.ENTER)
    until(lambda: chrome.title == "GET /private – te")
    assert SECRET not in chrome.page_source
    chrome.find_element(By.LINK_TEXT, "show").send_keys(Keys.ENTER)
    until(lambda: SECRET in chrome.page_source)
    chrome.find_element(By.XPATH, "//button[.='Replay']").send_keys(Keys.ENTER)
    until(lambda: "Differences" in texts(chrome, "h3"))
    assert [headers["X-Te-Replay"] for *_, headers in running_inspector.upstream_requests] == ["1"]
    assert read_log(chrome) == []


def _contrast(chrome: Chrome) -> list[Any]:
    """Return texts with a contrast below 4.5 to their background."""
    script = """
    const part = (it) => it / 255 <= 0.04045 ? it / 3294.6 : ((it / 255 + 0.055) / 1.055) ** 2.4;
    const light = (color) => {
      const [red, green, blue] = color.match(/[\\d.]+/g).map(Number).map(part);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const back = (node) => {
      const color = node ? getComputedStyle(node).backgroundColor : "rgb(255, 255, 255)";
      return color.endsWith(", 0)") ? back(node.parentElement) : color;
    };
    const ratio = (node) => {
      const [low, high] = [light(getComputedStyle(node).color), light(back(node))].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    };
    const hasText = (node) => [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
    return [...document.querySelectorAll("body *")]
      .filter((node) => node.checkVisibility() && hasText(node) && ratio(node) < 4.5)
      .map((node) => node.outerHTML.slice(0, 80));
    """
    ratios: list[Any] = chrome.execute_script(script)
    return ratios


_NAMELESS = """
const controls = document.querySelectorAll("button, a, input:not([type=hidden]), textarea");
const isNamed = (it) => it.innerText || it.ariaLabel || it.labels?.length;
return [...controls].filter((it) => it.checkVisibility() && !isNamed(it)).map((it) => it.outerHTML);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_window_and_are_readable(
    chrome: Chrome, running_inspector: RunningInspector, width: int, scheme: str
) -> None:
    long = b"GET /" + b"long-path/" * 30 + b" HTTP/1.1\r\nhost: x\r\nx-long: " + b"v" * 400 + b"\r\n\r\n"
    running_inspector.record(long, b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 900\r\n\r\n" + b"y" * 900)
    running_inspector.record(REQUEST, b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        chrome.get(running_inspector.link)
        for path in ("", "requests/2", "requests/1/edit", "requests/2?view=hex"):
            chrome.get(running_inspector.page + path)
            assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
            assert _contrast(chrome) == []
            assert chrome.execute_script(_NAMELESS) == []
            assert accessibility.find_violations(chrome) == []
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_without_script_everything_is_there(chrome: Chrome, running_inspector: RunningInspector) -> None:
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chrome.get(running_inspector.link)
        chrome.find_element(By.CSS_SELECTOR, "#rows a").click()
        assert texts(chrome, "h2") == ["GET /private"]
        chrome.find_element(By.XPATH, "//button[.='Replay']").click()
        until(lambda: "Replay of" in texts(chrome, "dt"))
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
