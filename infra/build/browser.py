"""Headless Chromium without access to the internet, for tests of the reference page and its screenshot.

`make screenshot` writes docs/reference.png.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.remote.command import Command

from infra import ROOT, CommandError
from infra.build.docs import PAGE
from infra.local.cloud import HOST

# Chrome comes first: on machines with both browsers, chromedriver has the version of Chrome.
_BROWSERS = ("google-chrome", "chromium")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # Chromium does not start as root with its sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",
    "--window-size=1440,900",
)
_PICTURE = ROOT / "docs" / "reference.png"
_SHOWN = "create_ssh_user_certificate"  # the id of the operation at the top of the screenshot


def main() -> None:
    """Take the screenshot. Exit with one sentence and status 1 if that fails."""
    try:
        with opened() as chrome:
            chrome.get(f"{PAGE.as_uri()}#{_SHOWN}")
            chrome.save_screenshot(str(_PICTURE))
    except CommandError as error:
        sys.exit(str(error))


@contextmanager
def opened(*flags: str) -> Iterator[Chrome]:
    """Open a browser with a new profile.

    `flags` are added to the browser's command line, and replace default flags of the same name. Raises CommandError if
    the browser or its driver is not installed.
    """
    browser, driver = next(filter(None, map(shutil.which, _BROWSERS)), None), shutil.which("chromedriver")
    if not (browser and driver):
        raise CommandError("Chromium and its driver are needed: install chromium and chromium-driver.")
    with TemporaryDirectory() as profile:
        options = ChromeOptions()
        options.binary_location = browser
        for flag in (*_FLAGS, *flags, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chrome = Chrome(options, ChromeService(driver))
        try:
            chrome.get("about:blank")
            requested(chrome)  # ignore the requests that the browser sends when it starts
            yield chrome
        finally:
            chrome.quit()


def operations(chrome: Chrome) -> dict[str, str]:
    """Return the text of each operation on the page, by operation id."""
    script = """return Object.fromEntries(Array.from(
        document.querySelectorAll(".operation"), (section) => [section.id, section.innerText.replace(/\\n+/g, "\\n")]
    ))"""
    operations: dict[str, str] = chrome.execute_script(script)
    return operations


def requested(chrome: Chrome) -> list[str]:
    """Return the URLs requested since the previous call, without blob and data URLs."""
    log = chrome.execute(Command.GET_LOG, {"type": "performance"})["value"]
    events: list[dict[str, Any]] = [json.loads(entry["message"])["message"] for entry in log]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith(("blob:", "data:"))]


if __name__ == "__main__":
    main()
