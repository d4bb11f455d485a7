"""States of `make run` that earlier versions made, with what their API answered: the fixtures in states/.

`python -m tests.served.recorded 44e6111` records one again, with keys made for it. It runs that version's own code in
this environment.
"""

import base64
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cloud import upgrades
from tests.conftest import ROOT, await_answer, free_port
from tests.samples import BODIES, EDITABLE_KINDS, PATHS
from tests.transports import Client, Http

STATES = Path(__file__).parent / "states"
KEPT = ("cloud/key_id", "cloud/state.json", "env")
ANSWERS = "answers.json"


def unpack(commit: str, folder: Path) -> dict[str, Any]:
    """Put a version's state into a folder and return what its API answered, by path; {base_url} is in its URIs."""
    with tarfile.open(STATES / f"{commit}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    answers: dict[str, Any] = json.loads((folder / ANSWERS).read_text())
    (folder / ANSWERS).unlink()
    return answers


def records(commit: str) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
    """Return a version's token, the records of its table in DynamoDB's form, and what its API answered, by path."""
    with TemporaryDirectory() as folder:
        answers = unpack(commit, Path(folder))
        token = dict(line.split("=", 1) for line in Path(folder, "env").read_text().splitlines())["API_KEY"]
        state = json.loads(Path(folder, "cloud", "state.json").read_text(), object_hook=_with_bytes)
    (table,) = state["services"]["dynamodb"]["tables"]["data"].values()
    return token, [record for scope in table["items"].values() for record in scope.values()], answers


def _with_bytes(read: dict[str, Any]) -> dict[str, Any]:
    return {"B": base64.b64decode(read["B"])} if [*read] == ["B"] and isinstance(read["B"], str) else read


def record(commit: str) -> None:
    """Serve a version, create one resource of each kind, and store the state and the answers."""
    with TemporaryDirectory() as folder:
        code, local = Path(folder, "code"), Path(folder, "local")
        with tarfile.open(fileobj=io.BytesIO(upgrades.git("archive", commit))) as archive:
            archive.extractall(code, filter="data")
        for name in (".venv", ".venv-cloud"):
            (code / name).symlink_to(ROOT / name)
        base_url = f"http://127.0.0.1:{free_port()}"
        with _serve(code, local, base_url):
            token = dict(line.split("=", 1) for line in (local / "env").read_text().splitlines())["API_KEY"]
            caller = Client(Http(base_url), token, check=lambda *_: None)
            answers = {path: caller.get(path).json for path in _create_all(caller)}
        text = json.dumps(answers, indent=1, sort_keys=True).replace(base_url, "{base_url}")
        (local / ANSWERS).write_text(text)
        _pack(local, STATES / f"{commit}.tar.gz")


@contextmanager
def _serve(code: Path, local: Path, base_url: str) -> Iterator[None]:
    """Serve that code with its state in a folder, and end it as Ctrl-C does."""
    port, settings = base_url.rpartition(":")[2], {"CLOUD_PORT": str(free_port()), "LOCAL_DIR": str(local)}
    environment = {**os.environ, **settings, "PORT": port}
    log = local.with_suffix(".log")
    with open(log, "wb") as output:
        command = [sys.executable, "-m", "infra.local.run"]
        process = subprocess.Popen(command, cwd=code, env=environment, stdout=output, stderr=output)
    try:
        await_answer(base_url, process, log)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def _create_all(caller: Client) -> Iterator[str]:
    """Create a resource of every kind that the version has, and yield their paths."""
    for resource in EDITABLE_KINDS:
        path = resource.kind.path
        address = PATHS[path](caller) if path in PATHS else path
        if caller.get(address).status == 200:
            yield f"{address}/{caller.create(address, BODIES[path](caller))['id']}"


def _pack(folder: Path, archive: Path) -> None:
    archive.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(archive, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as files:
        for name in (*KEPT, ANSWERS):
            files.add(folder / name, name)


if __name__ == "__main__":
    record(*sys.argv[1:])
