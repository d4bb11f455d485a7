"""Sign-in at an issuer that others have written and published: oidc-provider-mock."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from infra.build import browser
from tests.cli.conftest import User
from tests.conftest import Served
from tests.live.edge.running import listens
from tests.needs import need

_CLIENT = "te-client"


@pytest.fixture(scope="module")
def published(other_issuer: str) -> Iterator[str]:
    """Run the published issuer."""
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(urlsplit(other_issuer).port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not listens(int(urlsplit(other_issuer).port or 0)):
            assert process.poll() is None
            time.sleep(0.05)
        yield other_issuer
        process.terminate()


@pytest.fixture
def credential(served: Served, published: str) -> str:
    """Return a federated credential with which ada signs in."""
    admin = served.client()
    owner = admin.create("/bot_users", {"name": f"ada-{time.monotonic_ns()}"})["id"]
    fields = {"issuer": published, "audiences": [_CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {
        "scopes": ["backends:write"],
        "sign_in": {"client_id": _CLIENT, "client_secret": "any"},
        "max_lifetime": 3600,
    }
    return str(admin.create("/federated_credentials", {**fields, **more})["id"])


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    need("chromium")
    with browser.opened() as chromium:
        yield chromium


def sign_in(chrome: Chrome, address: str, name: str = "ada") -> None:
    chrome.get(address)
    chrome.find_element(By.NAME, "sub").send_keys(name)
    chrome.find_element(By.XPATH, "//button[.='Authorize']").click()


def start(user: User, *arguments: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [str(user.te), *arguments]
    return subprocess.Popen(
        command, env=user.environment, cwd=user.home, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_chromium_signs_in(user: User, served: Served, credential: str, chrome: Chrome, tmp_path: Path) -> None:
    address_file = tmp_path / "address"
    with_browser = user.with_settings(BROWSER=f"{sys.executable} -c \"open('{address_file}', 'w').write('%s')\"")
    process = start(with_browser, "login", served.base_url, credential)
    WebDriverWait(chrome, 30).until(lambda _: address_file.exists() and address_file.read_text())
    sign_in(chrome, address_file.read_text())
    WebDriverWait(chrome, 30).until(lambda page: "Return to the terminal" in page.page_source)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert json.loads(output)["key"]["scopes"] == ["backends:write"]
    assert user.run("backends", "http-response", "create").returncode == 0


@pytest.mark.parametrize(("name", "code"), [("ada", 0), ("eve", 1)])
def test_a_pasted_address_signs_in(
    user: User, served: Served, credential: str, chrome: Chrome, name: str, code: int
) -> None:
    process = start(user, "login", served.base_url, credential, "--paste")
    assert process.stderr
    address = [process.stderr.readline() for _ in range(2)][1].strip()
    sign_in(chrome, address, name)
    WebDriverWait(chrome, 30).until(lambda page: "code=" in page.current_url)  # a page that it cannot load
    _, errors = process.communicate(f"{chrome.current_url}\n", timeout=30)
    assert process.returncode == code, errors
    assert "Traceback" not in errors


def test_an_issuer_without_the_device_grant_is_one_sentence(user: User, served: Served, credential: str) -> None:
    result = user.run("login", served.base_url, credential, "--device")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "has no device_authorization_endpoint: choose another way to sign in." in result.stderr
