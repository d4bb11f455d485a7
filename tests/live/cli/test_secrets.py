"""Each secret of a whole run is in its place, and nowhere else: not in arguments, environments, outputs or pages."""

import http.client
import json
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli import issuer as issuers
from tests.cli.conftest import User
from tests.cli.issuer import OidcIssuer
from tests.conftest import Served
from tests.live.cli.conftest import running_te
from tests.live.cli.inspecting import serving
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.processes import Platform
from tests.live.edge.running import until

pytestmark = needs_envoy

AUTHORIZATION, COOKIE, SET_COOKIE = (f"{name}-of-the-visitor-4711" for name in ("authorization", "cookie", "session"))


class Answering(BaseHTTPRequestHandler):
    """A local server that sets a cookie."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Set-Cookie", f"sid={SET_COOKIE}")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def watching(home: Path) -> Iterator[dict[str, str]]:
    """Record the arguments and the environment of all processes with this home."""
    texts: dict[str, str] = {}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    environment = (process / "environ").read_bytes()
                    if f"HOME={home}\0".encode() in environment:
                        arguments = (process / "cmdline").read_bytes()
                        texts[f"process {process.name}"] = (arguments + environment).decode(errors="replace")
                except OSError:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield texts
    finally:
        stop.set()
        thread.join()


def sign_in(user: User, api: Served, credential: str) -> str:
    """Sign in by a pasted address, for a profile of its own. Return what was printed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [str(user.te), "login", api.base_url, credential, "--paste", "--profile", "person"],
        env=user.environment, cwd=user.home, stdin=pipe, stdout=pipe, stderr=pipe, text=True,
    ) as process:  # fmt: skip
        assert process.stderr
        address = [process.stderr.readline() for _ in range(2)][1].strip()
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc)
        connection.request("POST", f"{parts.path}?{parts.query}")
        ended_at = connection.getresponse().headers["Location"]
        output, errors = process.communicate(f"{ended_at}\n", timeout=30)
    assert process.returncode == 0, errors
    return output + errors


def pages(link: str) -> str:
    """Return the pages of the inspector, to which the link leads."""
    parts = urlsplit(link)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"/?{parts.query}")
    answer = connection.getresponse()
    answer.read()
    cookie, folder = str(answer.headers["Set-Cookie"]).partition(";")[0], answer.headers["Location"]
    text = ""
    for path in (folder, f"{folder}requests/1", f"{folder}requests/1/har", f"{folder}page.js"):
        connection = http.client.HTTPConnection(parts.netloc)
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        assert answer.status == 200
        text += answer.read().decode()
    return text


def test_each_secret_is_in_its_place_only(user: User, api: Served, platform: Platform, issuer: OidcIssuer) -> None:
    admin = api.client()
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    owner = admin.create("/bot_users", {"name": f"ada-{time.monotonic_ns()}"})["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["backends:write"], "sign_in": {"client_id": issuers.CLIENT}}
    credential = admin.create("/federated_credentials", {**fields, **more})["id"]
    issuer.state.claims, issuer.state.sends_refresh_tokens = {}, True
    issuer.state.secrets.clear()
    texts: dict[str, str] = {}

    def run(*arguments: str, stdin: str = "") -> None:
        result = user.run(*arguments, stdin=stdin)
        assert result.returncode == 0, result.stderr
        texts[" ".join(arguments)] = result.stdout + result.stderr

    with watching(user.home) as process_texts, serving(Answering) as port:
        run("login", api.base_url, "--key", stdin=f"{api.token}\n")
        texts["person"] = sign_in(user, api, credential)
        run("ssh", "login", "--authority", authority, "--principal", "ada", "--file")
        run("api-keys", "create", "--token-file", "created", "--scopes", "edges:read")
        run("whoami")
        run("profiles")
        with running_te(user, "http", str(port), "--name", "kept-secrets") as client:
            client.address()
            headers = ("-H", f"Authorization: Bearer {AUTHORIZATION}", "-H", f"Cookie: sid={COOKIE}")
            until(lambda: platform.status("kept-secrets", "/", *headers) == "200")
            for words in (("list",), ("show", "1"), ("replay", "1"), ("export", "1", "--as", "curl")):
                run("requests", *words, "--pid", str(client.process.pid))
            run("requests", "export", "1", "--as", "har")
            link = next(line for line in client.stderr_lines if "http://127.0.0.1" in line).partition(": ")[2]
            texts["pages"] = pages(link)
            client.end()
            texts["te http"] = "\n".join([*client.stdout_lines, *client.stderr_lines])
    issuer.state.sends_refresh_tokens = False
    state = Path(".local/state/te")
    key = state / "ssh" / f"default-{authority}"
    stored = {
        name: json.loads((user.home / state / "credentials" / name).read_text()) for name in ("default", "person")
    }
    expected_places = {
        api.token: {str(state / "credentials/default")},
        stored["person"]["token"]: {str(state / "credentials/person")},
        (user.home / "created").read_text().strip(): {"created"},
        "".join((user.home / key).read_text().splitlines()[2:4]): set(),
        (user.home / key).read_text().splitlines()[2]: {str(key)},
        **{each: set() for each in (*issuer.state.secrets, AUTHORIZATION, COOKIE, SET_COOKIE)},
    }
    assert len(expected_places) >= 5 + 4 + 3
    assert len(process_texts) > 10
    files = {
        str(path.relative_to(user.home)): path.read_text(errors="replace")
        for path in user.home.rglob("*")
        if path.is_file()
    }
    for secret, right in expected_places.items():
        assert [name for name, text in {**texts, **process_texts}.items() if secret in text] == []
        assert {name for name, text in files.items() if secret in text} == right
    assert [name for name, text in {**texts, **process_texts}.items() if "PRIVATE KEY" in text] == []
    for folder in (user.home / ".config/te", user.home / state):
        for path in (folder, *folder.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
