"""Sign-in at an issuer: browser, device, pasted address, pipelines, and the renewal of keys."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from infra.build import browser
from tests.cli import issuer as issuers
from tests.cli.conftest import User
from tests.cli.issuer import OidcIssuer
from tests.conftest import Served
from tests.needs import need
from tests.transports import Client
from tunnel_edge.identity.oidc import Attempt

# A program in place of a browser: it writes down the address.
BROWSER = f"{sys.executable} -c \"import sys; open('address', 'w').write(sys.argv[1])\""


@pytest.fixture
def admin(served: Served) -> Client:
    return served.client()


@pytest.fixture
def credential(admin: Client, issuer: OidcIssuer) -> str:
    """Return a federated credential with which ada signs in."""
    issuer.state.claims, issuer.state.sends_refresh_tokens = {}, False
    owner = admin.create("/bot_users", {"name": f"ada-{time.monotonic_ns()}"})["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["backends:write"], "sign_in": {"client_id": issuers.CLIENT}, "max_lifetime": 3600}
    return str(admin.create("/federated_credentials", {**fields, **more})["id"])


def start(user: User, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    environment = {**user.environment, **settings}
    pipe = subprocess.PIPE
    command = [str(user.te), *arguments]
    return subprocess.Popen(command, env=environment, cwd=user.home, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def read_address(user: User) -> str:
    """Return the address that the program in place of a browser received."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if (user.home / "address").exists() and (address := (user.home / "address").read_text()):
            (user.home / "address").unlink()
            return address
        time.sleep(0.02)
    raise AssertionError("no browser was opened")


def submit_sign_in(address: str) -> str:
    """Sign in at the issuer, and return the address to which it redirects."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("POST", f"{parts.path}?{parts.query}")
    return str(connection.getresponse().headers["Location"])


def get(address: str) -> int:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().status


def read_credentials(user: User) -> dict[str, str]:
    credentials: dict[str, str] = json.loads((user.home / ".local/state/te/credentials/default").read_text())
    return credentials


def test_chromium_signs_in(user: User, served: Served, credential: str) -> None:
    need("chromium")
    process = start(user, "login", served.base_url, credential, BROWSER=BROWSER)
    with browser.opened() as chrome:
        chrome.get(read_address(user))
        chrome.find_element(By.ID, "sign-in").click()
        WebDriverWait(chrome, 30).until(lambda page: "Return to the terminal" in page.page_source)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert json.loads(output)["key"]["scopes"] == ["backends:write"]
    assert "The token is stored in: " in errors
    assert user.run("backends", "http-response", "create").returncode == 0


def test_stray_requests_change_nothing(user: User, served: Served, credential: str) -> None:
    process = start(user, "login", served.base_url, credential, BROWSER=BROWSER)
    address = read_address(user)
    redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
    with socket.create_connection((str(urlsplit(redirect).hostname), int(urlsplit(redirect).port or 0))):
        for stray in ("", "?code=forged", "?code=forged&state=", "?error=access_denied&state=guessed", "?state=%ff"):
            assert get(redirect + stray) == 404
        assert get(f"{redirect}/../other?code=forged") == 404
        assert get(submit_sign_in(address)) == 200
        assert process.wait(timeout=30) == 0
    process.communicate()


def test_an_error_of_the_issuer_ends_the_sign_in(user: User, served: Served, credential: str) -> None:
    process = start(user, "login", served.base_url, credential, BROWSER=BROWSER)
    query = parse_qs(urlsplit(read_address(user)).query)
    get(f"{query['redirect_uri'][0]}?error=access_denied&state={query['state'][0]}")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.endswith("te: The issuer rejected the sign-in: access_denied\n")
    assert not (user.home / ".local/state/te/credentials/default").exists()


def test_a_token_with_another_nonce_is_rejected(
    user: User, served: Served, credential: str, issuer: OidcIssuer
) -> None:
    issuer.state.claims = {}
    process = start(user, "login", served.base_url, credential, BROWSER=BROWSER)
    redirected = submit_sign_in(read_address(user))
    issuer.state.codes[parse_qs(urlsplit(redirected).query)["code"][0]]["nonce"] = "replayed"
    get(redirected)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.splitlines()[-1]) == (
        1,
        "te: The ID token is for another sign-in, because it has another nonce: begin again.",
    )


def test_a_pasted_address_signs_in(user: User, served: Served, credential: str) -> None:
    process = start(user, "login", served.base_url, credential, "--paste")
    assert process.stdin
    assert process.stderr
    lines = [process.stderr.readline() for _ in range(2)]
    process.stdin.write(
        "http://127.0.0.1/callback?code=forged&state=guessed\n" + submit_sign_in(lines[1].strip()) + "\n"
    )
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "This address does not belong to this sign-in." in errors
    assert read_credentials(user)["refresh_token"] == ""


def test_another_device_signs_in(user: User, served: Served, credential: str, issuer: OidcIssuer) -> None:
    result = user.run("login", served.base_url, "--federated", credential, "--device")
    assert result.returncode == 0, result.stderr
    assert f"Open {issuer.url}/device on any device, and confirm the code ABCD-EFGH." in result.stderr


def test_no_browser_opens_without_a_terminal(user: User, served: Served, credential: str, issuer: OidcIssuer) -> None:
    issuer.state.requests.clear()
    result = user.run("login", served.base_url, credential)
    assert (result.returncode, result.stdout) == (4, "")
    assert result.stderr.count("\n") == 1
    assert "--device or --paste" in result.stderr
    assert issuer.state.requests == []


def test_a_pipeline_signs_in_and_stores_nothing(
    user: User, served: Served, credential: str, issuer: OidcIssuer
) -> None:
    pipeline = user.with_settings(TE_URL=served.base_url, TE_FEDERATED=credential, TE_ID_TOKEN=issuer.token())
    result = pipeline.run("whoami")
    assert json.loads(result.stdout)["storage"] == "memory", result.stderr
    assert [*user.home.rglob("*")] == []
    outside = user.with_settings(TE_URL=served.base_url, TE_FEDERATED=credential).run("whoami")
    assert outside.returncode == 4
    assert "TE_ID_TOKEN" in outside.stderr


def test_a_pipeline_obtains_a_certificate_without_a_key(
    user: User, served: Served, issuer: OidcIssuer, admin: Client
) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    owner = admin.create("/bot_users", {"name": f"deploy-{time.monotonic_ns()}"})["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    scopes = [f"ssh_user_certificates:create@{authority}"]
    credential = admin.create("/federated_credentials", {**fields, "scopes": scopes})["id"]
    issuer.state.claims = {}
    settings = {"TE_URL": served.base_url, "TE_FEDERATED": credential, "TE_ID_TOKEN": issuer.token()}
    options = ("--authority", authority, "--principal", "deploy", "--lifetime", "10m")
    result = user.with_settings(**settings).run("ssh", "login", *options)
    assert result.returncode == 0, result.stderr
    (certificate,) = admin.get(f"/ssh_user_certificates?owner_id={owner}").json["ssh_user_certificates"]
    assert (certificate["principals"], certificate["created_by"]) == (["deploy"], credential)
    line = (user.home / f".local/state/te/ssh/default-{authority}-cert.pub").read_text()
    assert line == f"{certificate['certificate']}\n"
    assert not (user.home / ".local/state/te/credentials").exists()
    assert admin.get(f"/api_keys?owner_id={owner}").json["keys"] == []


def test_ctrl_c_ends_a_sign_in_in_the_browser(user: User, served: Served, credential: str) -> None:
    process = start(user, "login", served.base_url, credential, BROWSER=BROWSER)
    read_address(user)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert [file for file in user.home.rglob("*") if file.is_file()] == []


def test_a_rejected_token_is_explained(user: User, served: Served, credential: str, issuer: OidcIssuer) -> None:
    user.login(served)
    settings = {"TE_FEDERATED": credential, "TE_ID_TOKEN": issuer.token(sub="eve")}
    result = user.with_settings(**settings).run("login", served.base_url, "--explain")
    assert result.returncode == 1
    assert "  sub: eve\n" in result.stderr
    assert f'Conditions of {credential}:\n  aud: one of ["te-client"]\n  sub: ada\n' in result.stderr
    assert settings["TE_ID_TOKEN"].split(".")[2] not in result.stderr


def test_a_key_is_renewed_before_its_end_and_after_a_rejection(
    user: User, served: Served, credential: str, admin: Client
) -> None:
    user.run("login", served.base_url, credential, "--device")
    file = user.home / ".local/state/te/credentials/default"
    first = read_credentials(user)
    ending = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300))
    file.write_text(json.dumps({**first, "expires_at": ending}))
    assert user.run("whoami").returncode == 0  # still valid, and without a terminal there is no browser
    for step in ("ends soon", "was deleted"):
        if step == "was deleted":
            assert admin.delete(f"/api_keys/{read_credentials(user)['id']}").status == 204
        process = start(user, "whoami", BROWSER=BROWSER)
        get(submit_sign_in(read_address(user)))
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        assert json.loads(output)["key"]["id"] == read_credentials(user)["id"] != first["id"]
    admin.delete(f"/api_keys/{read_credentials(user)['id']}")
    result = user.run("whoami", "-o", "table")
    assert (result.returncode, result.stderr) == (
        4,
        "te: The sign-in has ended: sign in again with te login.\n",
    )


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("code=c&state={state}", "c"),
        ("state={state}", None),
        ("code=c", None),
        ("code=c&state=other", None),
        ("error=e&state=other", None),
        ("", None),
    ],
)
def test_only_the_right_state_gives_a_code(query: str, code: str | None) -> None:
    attempt = Attempt.begin("http://127.0.0.1:1/callback")
    assert attempt.code_of(query.format(state=attempt.state)) == code
