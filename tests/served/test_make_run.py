"""What `make run` promises, by running it: what it prints and keeps, how it ends, and what it says when it cannot."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)

from tests.conftest import ROOT, Served, await_answer, free_port, processes_with
from tests.needs import need
from tests.refusals import NO_ROUTE, assert_refused
from tests.served.commands import STOPPED, environment, settings
from tests.transports import RECORD, Client, Http, key_in

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0Sz0pVBEkVqhwXdvjUVMJYOSSOOKaLQ9cUZC0TvJSh"
AUTHORITIES, CERTIFICATES = "/ssh_certificate_authorities", "/ssh_user_certificates"


@dataclass(frozen=True)
class Run:
    """A running `make run`, as the person at the terminal sees it."""

    process: subprocess.Popen[str]
    settings: Mapping[str, str]
    log: Path

    @property
    def local(self) -> Path:
        return Path(self.settings["LOCAL_DIR"])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.settings['PORT']}"

    @property
    def token(self) -> str:
        return dict(line.split("=", 1) for line in (self.local / "env").read_text().splitlines())["API_KEY"]

    def client(self) -> Client:
        return Client(Http(self.base_url)).with_token(self.token)

    def interrupt(self) -> None:
        """Do what Ctrl-C does: send a signal to everything in the terminal's foreground."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=30)


@contextmanager
def run_make(command: list[str], chosen: Mapping[str, str]) -> Iterator[Run]:
    """Yield the command in a process group of its own, until it answers, and until its end."""
    need("the embedded cloud")
    log = Path(chosen["LOCAL_DIR"]).with_suffix(".log")
    RECORD.log_files.append(log)
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(chosen), stdout=output, stderr=output, text=True, start_new_session=True
        )
    run = Run(process, chosen, log)
    try:
        await_answer(run.base_url, process, log)
        yield run
    finally:
        if process.poll() is None:
            run.interrupt()


def make_run(chosen: Mapping[str, str]) -> AbstractContextManager[Run]:
    need("the environment of make")
    return run_make(["make", "run"], chosen)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Yield the first `make run` of a user whose clients have a version header of their own."""
    local = tmp_path_factory.mktemp("first") / "local"
    elsewhere = {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1", "AWS_DEFAULT_PROFILE": "nobody"}  # another cloud's
    with make_run({**settings(local), **elsewhere, "VERSION_HEADERS": "Vendor-Version, Service-Version"}) as run:
        yield run


@pytest.mark.needs("the page of the reference")  # without which it says that it lacks it, too
def test_it_prints_the_base_url_the_key_and_a_curl_line(first: Run) -> None:
    file = os.path.relpath(first.local / "env", ROOT)
    assert (
        first.log.read_text().split("{")[0]
        == f"""
  Base URL  {first.base_url}
  API key   {first.token}
  Docs      {first.base_url}/docs

  The first two are in {file}; try:

  . {file}; curl -H "Authorization: Bearer $API_KEY" -H 'Vendor-Version: 2' "$BASE_URL/api_keys"

  'make edge' gives servers on this machine public addresses: docs/edge.md

"""
    )
    assert first.log.read_text().count(first.token) == 1


@pytest.mark.needs("curl")
def test_the_curl_line_works_as_it_is_printed(first: Run) -> None:
    line = next(line for line in first.log.read_text().splitlines() if "curl" in line)
    process = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=30)
    page = json.loads(process.stdout)
    key = page["keys"][0]
    assert page == {
        "keys": [
            {
                "id": key_in(first.token),
                "uri": f"{first.base_url}/api_keys/{key_in(first.token)}",
                "created_at": key["created_at"],
                "description": "The account's first key",
                "metadata": "",
                "created_by": "operator",
                "owner_id": key["owner_id"],
                "token": None,
            }
        ],
        "uri": f"{first.base_url}/api_keys",
        "next_page_uri": None,
    }


def test_what_it_keeps_is_for_its_owners_eyes_only(first: Run) -> None:
    paths = [first.local, *first.local.rglob("*")]
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_file()} == {"0o600"}


def test_plain_chalice_local_works_on_the_embedded_cloud(served: Served, tmp_path: Path) -> None:
    script = '. "$LOCAL_DIR/cloud.env" && exec "$CHALICE" local --no-autoreload --port "$PORT" --stage local'
    chosen = {**settings(tmp_path / "local"), "CHALICE": str(Path(sys.executable).with_name("chalice"))}
    shutil.copytree(served.local, tmp_path / "local", ignore=shutil.ignore_patterns("cloud"))
    with run_make(["/bin/sh", "-c", script], chosen) as run:
        client = Client(Http(run.base_url)).with_token(served.token)
        key = client.create("/api_keys", {"description": "by chalice local"})
        assert served.client().get(f"/api_keys/{key['id']}").json == {
            **key,
            "uri": f"{served.base_url}/api_keys/{key['id']}",
            "token": None,
        }
        assert client.delete(f"/api_keys/{key['id']}").status == 204
        assert client.get(f"/api_keys/{key['id']}").status == 404


def test_plain_chalice_local_without_an_environment_says_what_it_lacks(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "local")
    chalice = [str(Path(sys.executable).with_name("chalice")), "local", "--no-autoreload", "--port", chosen["PORT"]]
    bare = ["env", "-i", f"HOME={tmp_path}", f"PATH={os.environ['PATH']}"]
    with run_make([*bare, *chalice, "--stage", "local"], chosen) as run:
        client = Client(Http(run.base_url)).with_token("2TfXCSmBHSvnQdwvT1fBtQ1mFEY_H5clykgfy6vopBbh1NZfj2QoPedjubSj")
        lacks = "no region is set: set AWS_DEFAULT_REGION"
        sentence = f"The service is not set up: {lacks}. docs/guide.md describes how."
        assert_refused(client.get("/api_keys"), 500, "internal_error", sentence)
        assert_refused(
            client.send("OPTIONS", "/api_keys"), 405, "method_not_allowed", "This path supports only GET, POST."
        )
        assert_refused(client.get("/api_keys/"), 404, "no_such_route", NO_ROUTE)


def test_a_folder_in_use_is_neither_served_twice_nor_reset(first: Run) -> None:
    pid = Path(f"/proc/{first.process.pid}/task/{first.process.pid}/children").read_text().strip()
    sentence = (
        f"{first.local} is in use by process {pid}, which serves it at {first.base_url}: "
        f"end that process first (kill {pid}), or choose another folder with LOCAL_DIR=….\n"
    )
    other_ports = {**first.settings, "PORT": str(free_port()), "CLOUD_PORT": str(free_port())}
    second = [sys.executable, "-m", "infra.local.run"]
    for command, status, chosen in ((second, 1, other_ports), (["make", "-s", "reset"], 2, first.settings)):
        process = subprocess.run(command, cwd=ROOT, env=environment(chosen), capture_output=True, text=True, timeout=30)
        assert (process.returncode, process.stdout) == (status, "")
        assert process.stderr.startswith(sentence)
    assert first.client().get("/api_keys").status == 200


def test_what_was_created_outlives_a_killed_run_and_ctrl_c_until_it_is_reset(first: Run, tmp_path: Path) -> None:
    authority = first.client().create(AUTHORITIES, {"private_key_type": "ecdsa", "description": "kept"})
    first.process.kill()  # make, not what it started: that ends by itself, and the next start waits for it
    first.process.wait(timeout=30)
    chosen = {**first.settings, "PORT": str(free_port()), "CLOUD_PORT": str(free_port())}
    with run_make(["sh", "-c", '. "$LOCAL_DIR/cloud.env" && exec make run'], chosen) as run:  # of the cloud that ended
        assert f"API key   {first.token}\n" in run.log.read_text()
        stored_authority = run.client().get(f"{AUTHORITIES}/{authority['id']}").json
        assert stored_authority == authority | {"uri": f"{run.base_url}{AUTHORITIES}/{authority['id']}"}
        request = {"ssh_certificate_authority_id": authority["id"], "public_key": KEY}
        assert signer(run.client().create(CERTIFICATES, request)["certificate"]) == authority["public_key"]
        run.interrupt()
        assert STOPPED in run.log.read_text()
        assert processes_with(f"LOCAL_DIR={run.local}") == []

    (run.local / "notes").write_text("not from here")
    reset(tmp_path, LOCAL_DIR=str(run.local))
    assert [path.name for path in run.local.iterdir()] == ["notes"]


def signer(certificate: str) -> str:
    """Return the public key of the authority behind a certificate whose signature holds."""
    read = load_ssh_public_identity(certificate.encode())
    assert isinstance(read, SSHCertificate)
    read.verify_cert_signature()
    return read.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def reset(folder: Path, **chosen: str) -> None:
    """`make reset` in a folder where the developer's own state is not."""
    command = ["make", "-f", str(ROOT / "Makefile"), "reset"]
    process = subprocess.run(command, cwd=folder, env=environment(chosen), capture_output=True, text=True, timeout=30)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
