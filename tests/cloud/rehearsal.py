"""The way up from 1.0.0, rehearsed: its package with a thousand resources, then the steps of the page, under load.

Prints what every step took and each answer that was another one than before. It fails when a record is lost or differs,
and when such an answer comes in another step than the release, for which the page announces it.
Run it as `python -m tests.cloud.rehearsal`.
"""

import io
import os
import random
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import boto3

from infra.deploy import service, stacks
from infra.local import cloud
from tests.cloud import upgrades
from tests.conftest import ROOT, free_port
from tests.modules.samples import GITHUB
from tests.samples import BODIES, EDITABLE_KINDS, PATHS
from tests.transports import Answer, Client, Http

FROM, NAME, BUCKET = "15dc98c", "tunnel-edge", "packages"
RECORDS, CLIENTS, REST = 1_000, 16, 300
NEWCOMER = "from chalicelib import operations; print(operations.create_account('acme', 'alice')[2])"


def run(folder: Path, settings: Mapping[str, str], *command: str) -> str:
    environment = {**os.environ, **settings}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


class Following:
    """A transport to an API whose address changes: the emulated cloud replaces an API whose definition changes.

    The real one keeps it. Each answer that only the moved address explains is counted, and the request repeated.
    """

    base_url = ""  # what uris begin with stays
    moved: ClassVar[list[float]] = []

    def __init__(self) -> None:
        self._http = Http(address())

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        for _ in range(600):
            answer = self._http.send(method, path, headers, body)
            if (answer.status, answer.text) != (404, '{"message": "Not Found"}'):  # which is not of the service
                return answer
            self.moved.append(time.monotonic())
            time.sleep(0.1)
            self._http.base_url = address()
        return answer


def address() -> str:
    """Return the URL that the API has at the moment."""
    stack = boto3.client("cloudformation", endpoint_url=cloud.named())
    found = stack.describe_stack_resource(StackName=f"{NAME}-api", LogicalResourceId="RestAPI")
    return f"{cloud.named()}/restapis/{found['StackResourceDetail']['PhysicalResourceId']}/dev/_user_request_"


def client(token: str) -> Client:
    """Return a client of any version: what it is answered is not held against the document of this one."""
    return Client(Following(), token, check=lambda *_: None)


def differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield where an answer lacks what it held before, or holds another value; what was added is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from differences(value, after.get(name, "(absent)"), f"{at}.{name}")
    elif before != after:
        yield f"{at}: {str(before)[:60]} is {str(after)[:60]}"


def compare(caller: Client, path: str, before: Any) -> list[str]:
    """Return the differences between a resource now and before."""
    answer = caller.get(path)
    return [*differences(before, answer.json, path)] if answer.status == 200 else [f"{path}: {answer.text}"]


@dataclass
class Work:
    """The work of the clients, and every answer that differs from before, with its second and step."""

    token: str
    records: dict[str, Any]
    step: str = "before"
    answers: Counter[str] = field(default_factory=Counter)
    others: list[tuple[float, str, str]] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)  # and not deleted
    lost: list[str] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        caller, paths = client(self.token), list(self.records)
        authorities = [path for path in paths if path.startswith("/ssh_certificate_authorities/")]
        while not self.ends.is_set():
            for _ in range(8):
                path = random.choice(paths)
                self.note("GET", path, 200, caller.get(path), self.records[path])
            authority = random.choice(authorities).rpartition("/")[2]
            body = {**BODIES["/ssh_credentials"](caller), "ssh_certificate_authority_id": authority}
            signed = caller.post("/ssh_user_certificates", body)
            self.note("POST", "/ssh_user_certificates", 201, signed, {})
            if signed.status == 201:
                self.made[f"/ssh_user_certificates/{signed.json['id']}"] = signed.json
            made = caller.post("/backends/http_response", {"description": "made meanwhile"})
            self.note("POST", "/backends/http_response", 201, made, {"description": "made meanwhile"})
            if made.status == 201:
                path, changed = f"/backends/http_response/{made.json['id']}", {"description": "changed meanwhile"}
                self.note("PATCH", path, 200, caller.patch(path, changed), changed)
                self.note("GET", path, 200, caller.get(path), {**made.json, **changed})
                self.note("DELETE", path, 204, caller.delete(path), None)

    def rest(self) -> None:
        """Wait until the clients have had some hundred answers more."""
        enough = self.answers.total() + REST
        while self.answers.total() < enough:
            time.sleep(0.2)

    def note(self, method: str, path: str, status: int, answer: Any, body: Any) -> None:
        self.answers[self.step] += 1
        wrong = [f"{answer.status} {answer.text[:160]}"] if answer.status != status else []
        if not wrong and body is not None:
            wrong = [*differences(body, answer.json)]
        self.others += [(time.monotonic(), self.step, f"{method} {path}: {it}") for it in wrong]


def fill(caller: Client) -> dict[str, Any]:
    """Create resources of every kind that the version has until there are a thousand; return them by their paths."""
    found: dict[str, Any] = {}
    kinds = [resource.kind.path for resource in EDITABLE_KINDS]
    kinds = [path for path in kinds if caller.get(PATHS[path](caller) if path in PATHS else path).status == 200]

    def make(number: int) -> tuple[str, Any]:
        path = kinds[number % len(kinds)]
        body = BODIES[path](caller)
        place = PATHS[path](caller) if path in PATHS else path
        created = caller.create(place, body)
        if path == "/edges/https/{edge_id}/routes":
            oauth = {"provider": {"github": GITHUB}}
            assert caller.put(f"{place}/{created['id']}/oauth", oauth).status == 200
        address = f"{place}/{created['id']}"
        answer = caller.get(address)
        assert answer.status == 200, answer.text
        return address, answer.json

    with ThreadPoolExecutor(4) as pool:  # with more, the emulated functions of a busy machine start for a minute
        found.update(pool.map(make, range(RECORDS)))
    return found


@contextmanager
def at_work(work: Work) -> Iterator[None]:
    workers = [threading.Thread(target=work.go_on) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        work.ends.set()
        for worker in workers:
            worker.join()


def climb(work: Work, settings: Mapping[str, str]) -> None:
    """Take the steps of the page, each while the clients go on, with a rest after it."""
    steps: dict[str, Callable[[], object]] = {
        "data stack": lambda: stacks.deploy(
            stacks.DATA.read_text(), f"{NAME}-data", {"Name": NAME, "MultiRegion": "false"}
        ),
        "release": lambda: service.deploy(ROOT / "build" / "dev", NAME, BUCKET, {}),
        "migrate": lambda: run(ROOT, settings, "-m", "chalicelib", "migrate", "--apply"),
        "migrated": lambda: run(ROOT, settings, "-m", "chalicelib", "migrate"),
        "edge stack": lambda: stacks.deploy(
            (ROOT / "infra" / "deploy" / "edge.yaml").read_text(),
            f"{NAME}-edge",
            {"Name": NAME, "KeyArn": stacks.outputs(f"{NAME}-data")["KeyArn"]},
        ),
    }
    work.rest()
    for name, take in steps.items():
        work.step, began = name, time.monotonic()
        said = take()
        print(f"{name}: {time.monotonic() - began:.1f} s; {said if isinstance(said, str) else ''}", flush=True)
        work.rest()


def rehearse(folder: Path) -> Work:
    """Go the way up with clients at work, and return their work with its answers."""
    old = folder / "old"
    with tarfile.open(fileobj=io.BytesIO(upgrades.git("archive", FROM))) as archive:
        archive.extractall(old, filter="data")
    run(old, {}, "-m", "infra.deploy.package", "dev")
    embedded = cloud.Cloud(folder / "cloud", free_port(), AUTH="true", PERSIST_STATE="0")
    embedded.start()
    try:
        settings = {**embedded.settings, "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
        cloud.speak_to(settings)
        stacks.make_bucket(BUCKET)
        deploy = ("-m", "infra.deploy", "build/dev", "--name", NAME, "--bucket", BUCKET)
        said = dict(line.split("=", 1) for line in run(old, settings, *deploy).splitlines())
        base_url = f"{embedded.url}/restapis/{said['RestAPIId']}/dev/_user_request_"
        run(old, settings, *deploy, f"BaseUrl={base_url}")
        token = run(old, settings, "-c", NEWCOMER)
        caller = client(token)
        work = Work(token, fill(caller))
        print(f"{len(work.records)} resources of 1.0.0", flush=True)
        with at_work(work):
            climb(work, settings)
        if moved := Following.moved:
            print(f"{len(moved)} answers of an address that had moved, within {moved[-1] - moved[0]:.1f} s")
        kept = {**work.records, **work.made}
        work.lost = [said for path, before in kept.items() for said in compare(caller, path, before)]
        print(f"{len(kept)} resources read in the end", flush=True)
        return work
    finally:
        embedded.stop()


def main() -> None:
    with TemporaryDirectory() as folder:
        work = rehearse(Path(folder))
    print(f"answers by step: {dict(work.answers)}")
    for name in work.answers:
        seen = [(at, said) for at, step, said in work.others if step == name]
        if seen:
            print(f"{name}: {len(seen)} others within {seen[-1][0] - seen[0][0]:.1f} s")
            print("\n".join(f"  {count} × {said}" for said, count in Counter(said for _, said in seen).most_common(5)))
    unannounced = [f"{step}: {said}" for _, step, said in work.others if step != "release"]
    if wrong := [*work.lost, *unannounced]:
        sys.exit("\n".join([f"{len(wrong)} are lost, or other than before without notice:", *wrong[:20]]))


if __name__ == "__main__":
    main()
