"""The upgrade of "Upgrading" in infra/README.md, rehearsed in an emulated cloud with clients at work.

`python -m tests.cloud.rehearsal 1.0.0` (or 2.0.0, or d3f2e57) deploys that version and creates resources, then takes
the steps of every later version, one version after the other. The last upgrade keeps the format of the records. It is
followed by the way back, the same release again, and the conversion to the latest format.

It prints how long each step took, and every answer that differs from before. It fails if a record is lost or differs,
and if such an answer comes in another step than a release, for which the page announces it. A request without an answer
is counted and printed: a busy machine has those.
"""

import io
import os
import subprocess
import sys
import tarfile
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra.deploy import stacks
from infra.local import cloud
from tests.cloud import clients_at_work, upgrades
from tests.cloud.clients_at_work import UNANSWERED, Work
from tests.conftest import ROOT, free_port
from tests.modules.samples import GITHUB
from tests.samples import BODIES, EDITABLE_KINDS, PATHS
from tests.transports import Answer, Client

NAME, BUCKET = "tunnel-edge", "packages"
FILLERS = 4  # with more, the emulated functions of a busy machine start for a minute
NAMES = {"TunnelDomain": "tunnels.localhost", "TcpPorts": "20000-29999"}
TRIES = 5
LATEST = 4  # the latest format of records
UNRELEASED = "d3f2e57"  # a version before 3.0.0 that writes its default format
PROGRESS = 10  # seconds between two lines
_ACCOUNT = "from chalicelib import operations; print(operations.create_account('acme', 'alice')[2])"
_ROUTES = "/edges/https/{edge_id}/routes"
Steps = dict[str, Callable[[], object]]  # by the name of each step


def main() -> None:
    """Rehearse, and exit with status 1 if anything is lost or differs."""
    parser = ArgumentParser(prog="python -m tests.cloud.rehearsal", description=__doc__)
    commits = dict(upgrades.history())
    parser.add_argument("version", choices=[*commits, UNRELEASED], help="the version to begin with")
    parser.add_argument("--resources", type=int, default=5_000)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    released = [*commits]
    later = released[released.index(options.version) :] if options.version in commits else [UNRELEASED]
    with TemporaryDirectory() as folder:
        versions = [_of_history(name, commits.get(name, name), Path(folder)) for name in later]
        versions.append(Version(upgrades.NEXT, ROOT))
        work, losses = rehearse(versions, Path(folder), options.resources, options.clients)
    _report(work)
    unannounced = [f"{step}: {text}" for _, step, text in work.errors if not step.endswith(" release")]
    if wrong := [*losses, *unannounced]:
        sys.exit("\n".join([f"{len(wrong)} are lost, or other than before without notice:", *wrong[:20]]))
    _say("Nothing is lost, and nothing differs that the page does not announce.")


@dataclass(frozen=True)
class Version:
    """A version: its name, and the folder with its code and package."""

    name: str
    code: Path

    def run(self, settings: Mapping[str, str], *command: str) -> str:
        """Run a Python command of this version and return what it prints."""
        environment = {**os.environ, **settings}
        command = (sys.executable, *command)
        result = subprocess.run(command, cwd=self.code, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        assert result.returncode == 0, f"{self.name}: {command} failed"
        return result.stdout.strip()

    @property
    def package(self) -> Path:
        return self.code / "build" / "dev"

    def deploy(self, settings: Mapping[str, str], *parameters: str, package: Path | None = None) -> dict[str, str]:
        """Deploy its package, or another one with its commands. Return what that prints."""
        target = (str(package or self.package), "--name", NAME, "--bucket", BUCKET)
        output = self.run(settings, "-m", "infra.deploy", *target, "AlarmTopicArn=none", *parameters)
        return dict(line.split("=", 1) for line in output.splitlines())

    @property
    def has_names(self) -> bool:
        """Return whether accounts can reserve names and ports."""
        return "TcpPorts:" in self.template("api.yaml")

    def template(self, file: str) -> str:
        return (self.code / "infra" / "deploy" / file).read_text()

    def upgrade(self, settings: Mapping[str, str]) -> Steps:
        """Return the steps of the upgrade to this version, as the page has them."""
        return {
            f"to {self.name}: data stack": self._update_data,
            f"to {self.name}: release": lambda: self.release(settings),
            **self._migrate(f"to {self.name}", settings),
            f"to {self.name}: edge stack": self._update_edge,
        }

    def convert(self, settings: Mapping[str, str]) -> Steps:
        """Return the steps that select the latest format and convert the records."""
        return {
            f"format {LATEST}: release": lambda: self.release(settings, f"RecordFormat={LATEST}"),
            **self._migrate(f"format {LATEST}", settings),
        }

    def _migrate(self, step: str, settings: Mapping[str, str]) -> Steps:
        """Return the steps that migrate the records, in the format that the stack writes."""

        def run(*options: str) -> str:
            number = stacks.parameters(f"{NAME}-api").get("RecordFormat", "")
            output = self.run({**settings, "RECORD_FORMAT": number}, "-m", "chalicelib", "migrate", *options)
            return f"format {number}: {output}" if number else output

        def check() -> str:
            output = run()
            assert "to be rewritten: none." in output, output
            return output

        return {f"{step}: migrate": lambda: run("--apply"), f"{step}: migrated": check}

    def _update_data(self) -> None:
        template, stack = self.template("data.yaml"), f"{NAME}-data"
        old_key = {"MultiRegion": "false"} if "MultiRegion:" in template else {}
        stacks.deploy(template, stack, {**old_key, **stacks.parameters(stack)})

    def release(self, settings: Mapping[str, str], *parameters: str, package: Path | None = None) -> None:
        """Deploy a release: this version's package, or an earlier one."""
        self.deploy(settings, *parameters, package=package)

    def _update_edge(self) -> None:
        key = stacks.outputs(f"{NAME}-data")["KeyArn"]
        stacks.deploy(self.template("edge.yaml"), f"{NAME}-edge", {"Name": NAME, "KeyArn": key})


def rehearse(versions: list[Version], folder: Path, resources: int, clients: int) -> tuple[Work, list[str]]:
    """Upgrade from the first version to the last. Return the work of the clients, and what is lost."""
    embedded = cloud.Cloud(folder / "cloud", free_port(), AUTH="true", PERSIST_STATE="0")
    embedded.start()
    try:
        settings = {**embedded.settings, "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
        if versions[0].has_names:
            settings |= {"TUNNEL_DOMAIN": NAMES["TunnelDomain"], "TCP_PORTS": NAMES["TcpPorts"]}
        cloud.use_cloud(settings)
        work = Work(token := _first_account(versions[0], settings), _fill(token, resources))
        with work.by(clients):
            work.await_answers()
            for version in versions[1:]:
                _take(version.upgrade(settings), work)
            last, before = versions[-1], versions[-2]
            _take({f"back to {before.name}: release": lambda: last.release(settings, package=before.package)}, work)
            losses = [
                difference for difference in _find_lost(work) if not difference.endswith(" is (absent)")
            ]  # what a new version added
            _take({f"again to {last.name}: release": lambda: last.release(settings)}, work)
            _take(last.convert(settings), work)
        return work, [*losses, *_find_lost(work)]
    finally:
        embedded.stop()


def _of_history(name: str, commit: str, folder: Path) -> Version:
    """Return a version of the history, with its package."""
    code = folder / name
    with tarfile.open(fileobj=io.BytesIO(upgrades.git("archive", commit))) as archive:
        archive.extractall(code, filter="data")
    version = Version(name, code)
    with _progress(f"package of {name}"):
        version.run({}, "-m", "infra.deploy.package", "dev")
    return version


def _first_account(version: Version, settings: Mapping[str, str]) -> str:
    """Deploy a version into the empty cloud and return the token of an account."""
    with _progress(f"deployment of {version.name}"):
        stacks.make_bucket(BUCKET)
        api = version.deploy(settings)["RestAPIId"]
        base_url = f"{settings['AWS_ENDPOINT_URL']}/restapis/{api}/dev/_user_request_"
        names = [f"{name}={value}" for name, value in NAMES.items() if version.has_names]
        version.deploy(settings, f"BaseUrl={base_url}", *names)
        return version.run(settings, "-c", _ACCOUNT)


def _fill(token: str, count: int) -> dict[str, Any]:
    """Create resources of every kind that the version has. Return them by their paths."""
    caller, resources = clients_at_work.client(token), dict[str, Any]()
    kinds = [resource.kind.path for resource in EDITABLE_KINDS]
    kinds = [path for path in kinds if caller.get(_list_path(caller, path)).status == 200]
    with _progress(f"{count} resources", lambda: str(len(resources))), ThreadPoolExecutor(FILLERS) as pool:
        for path, resource in pool.map(lambda number: _create(caller, kinds[number % len(kinds)]), range(count)):
            resources[path] = resource
    return resources


def _list_path(caller: Client, path: str) -> str:
    return PATHS[path](caller) if path in PATHS else path


def _create(caller: Client, path: str) -> tuple[str, Any]:
    """Create a resource of a kind, again if there is no answer. Return its path, and it."""
    list_path = _list_path(caller, path)
    address = f"{list_path}/{_successful(lambda: caller.post(list_path, BODIES[path](caller)))['id']}"
    if path == _ROUTES:
        _successful(lambda: caller.put(f"{address}/oauth", {"provider": {"github": GITHUB}}))
    return address, _successful(lambda: caller.get(address))


def _successful(ask: Callable[[], Answer]) -> Any:
    answer = _ask_until_answered(ask)
    assert answer.status in (200, 201), answer.text
    return answer.json


def _ask_until_answered(ask: Callable[[], Answer]) -> Answer:
    """Return the answer to a request, which is repeated if there is none."""
    for _ in range(TRIES):
        if (answer := ask()).status != UNANSWERED:
            break
    return answer


def _take(steps: Steps, work: Work) -> None:
    """Take some steps while the clients work, with some hundred answers after each."""
    for name, take in steps.items():
        work.step = name
        with _progress(work.step, work.summary):
            output = take()
        if output:
            _say(f"  {output}")
        with _progress(f"{work.step}, after it", work.summary):
            work.await_answers()


def _find_lost(work: Work) -> list[str]:
    """Return the differences between all resources and what they were when they were made."""
    caller, losses, expected = clients_at_work.client(work.token), list[str](), {**work.records, **work.new_records}
    read = 0

    def compare(path: str) -> list[str]:
        nonlocal read
        read += 1
        answer = _ask_until_answered(lambda: caller.get(path))
        same = answer.status == 200
        return [*clients_at_work.differences(expected[path], answer.json, path)] if same else [f"{path}: {answer.text}"]

    with _progress(f"{len(expected)} resources read again", lambda: str(read)):
        for differences in map(compare, expected):
            losses += differences
    return losses


@contextmanager
def _progress(title: str, state: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Print that something begins, how it goes every ten seconds, and how long it took."""
    start, is_over = time.monotonic(), threading.Event()

    def line(word: str) -> None:
        _say(f"{title}: {word}{time.monotonic() - start:.1f} s{', ' if state() else ''}{state()}")

    def watch() -> None:
        while not is_over.wait(PROGRESS):
            line("… ")

    _say(f"{title} …")
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
    line("")


def _report(work: Work) -> None:
    moved = clients_at_work.Following.moved
    if moved:
        _say(f"{len(moved)} answers of an address that had moved, within {moved[-1] - moved[0]:.1f} s")
    for name, count in work.answers.items():
        errors = [(at, text) for at, step, text in work.errors if step == name]
        within = f" within {errors[-1][0] - errors[0][0]:.1f} s" if errors else ""
        _say(f"{name}: {count} answers, {len(errors)} others{within}, {work.unanswered[name]} unanswered")
        for text, times in Counter(text for _, text in errors).most_common(5):
            _say(f"  {times} × {text}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
