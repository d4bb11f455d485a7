"""One account sends ten times its limit: what other accounts notice, at `make run` and in the emulated cloud.

`python -m tests.cloud.flood` serves the API like `make run`. With `--deployed` it deploys the package of
`make package STAGE=dev` behind the emulated gateway, which serves a few requests a second: give it `--limit 1`. Four
other accounts send together 1.6 times the limit, first alone (quiet) and then beside the flood. After three quarters of
the flood, an admin of the account deletes the flooding key.
"""

import os
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

import httpx

from infra.deploy import service, stacks
from infra.local import cloud
from tests.conftest import ROOT, free_port, serve

OTHER_ACCOUNTS, OTHER_RATE = 4, 0.4  # accounts, and the part of the limit that each sends
MAX_RATIO, MAX_DELAY = 1.5, 0.025  # of the p99 of a quiet time, and seconds
DELETION_TIME = 0.75  # of the flood, when its key is deleted
ADMITTED = 1.2  # of the limit, as documented for one process
FORMS = {"retry-after": "[1-9]", "ratelimit": '"account";r=0;t=[1-9]', "ratelimit-policy": '"account";q=[0-9]+;w=1'}
_BUCKET, _NAME = "packages", "tunnel-edge"
_ACCOUNTS = f"""
from chalicelib.operator import accounts
for number in range({OTHER_ACCOUNTS + 1}):
    account, user, token = accounts.create_account(f"account-{{number}}", "alice")
    print(account.id, token)
"""


@dataclass
class Answers:
    """The statuses of answers and their seconds, and the 429s with a missing or wrong header."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    incomplete: int = 0

    def add(self, answer: httpx.Response, seconds: float) -> None:
        self.statuses[answer.status_code] += 1
        self.seconds.append(seconds)
        is_complete = all(re.fullmatch(form, answer.headers.get(name, "")) for name, form in FORMS.items())
        self.incomplete += answer.status_code == 429 and not is_complete

    @property
    def p99(self) -> float:
        return quantiles(self.seconds, n=100)[98]


def main() -> None:
    """Print what the accounts noticed. Exit with status 1 if a bound is missed."""
    parser = ArgumentParser(prog="python -m tests.cloud.flood", description=__doc__)
    parser.add_argument("--deployed", action="store_true", help="through the emulated gateway")
    parser.add_argument("--limit", type=int, default=10, help="requests a second of the flooding account")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    rate = options.limit * OTHER_RATE
    with TemporaryDirectory() as folder, (_deploy if options.deployed else _local)(Path(folder)) as (url, settings):
        tokens = _accounts(settings, options.limit)
        flooding = _key(url, tokens[0])
        send(url, tokens[1], rate, 5)  # starts the functions
        quiet = _send_for_all(url, tokens[1:], rate, options.seconds)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, ThreadPoolExecutor(1) as thread:
            flood = pool.submit(send, url, flooding["token"], options.limit * 10, options.seconds)
            deletion = thread.submit(_end, url, tokens[0], flooding["id"], options.seconds * DELETION_TIME)
            beside = _send_for_all(url, tokens[1:], rate, options.seconds)
            missed = [*_report(quiet, beside, flood.result(), deletion.result())]
        if flood.result().statuses[200] > options.limit * (ADMITTED * options.seconds * DELETION_TIME + 1):
            missed.append("The flooding account sent more than its limit.")
        sys.exit("\n".join(missed) or 0)


def _report(quiet: Answers, beside: Answers, flood: Answers, deletion: tuple[int, float]) -> Iterator[str]:
    """Print the figures. Yield the missed bounds."""
    print(f"others: quiet {dict(quiet.statuses)}, p99 {quiet.p99 * 1000:.0f} ms")
    print(f"others: beside the flood {dict(beside.statuses)}, p99 {beside.p99 * 1000:.0f} ms")
    print(f"flood: {dict(flood.statuses)}, p99 {flood.p99 * 1000:.0f} ms; 429s with wrong headers: {flood.incomplete}")
    print(f"its key was deleted: {deletion[0]} after {deletion[1] * 1000:.0f} ms")
    if {*beside.statuses} != {200}:
        yield "Others had other answers than 200."
    if beside.p99 > max(quiet.p99 * MAX_RATIO, quiet.p99 + MAX_DELAY):
        yield "Others waited too long."
    if not flood.statuses[429] or flood.incomplete or not {*flood.statuses} <= {200, 401, 429}:
        yield "The flood was not answered by 429s with correct headers."
    if deletion[0] != 204:
        yield "The flooding key could not be deleted."


def send(url: str, token: str, rate: float, seconds: float) -> Answers:
    """Send requests at a rate, whenever the previous ones are answered, until the token is rejected."""
    answers, start, headers = Answers(), time.monotonic(), _headers(token)

    def send_one(number: int, client: httpx.Client) -> None:
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        if answers.statuses[401] or time.monotonic() > start + seconds:
            return
        before = time.monotonic()
        answer = client.get(f"{url}/backends/weighted", headers=headers)
        answers.add(answer, time.monotonic() - before)

    with httpx.Client(timeout=60, trust_env=False) as client, ThreadPoolExecutor(max(2, int(rate) // 5)) as pool:
        for future in [pool.submit(send_one, number, client) for number in range(int(rate * seconds))]:
            future.result()
    return answers


def _send_for_all(url: str, tokens: Sequence[str], rate: float, seconds: float) -> Answers:
    with ThreadPoolExecutor(len(tokens)) as pool:
        all_answers = [*pool.map(lambda token: send(url, token, rate, seconds), tokens)]
    total = Answers()
    for answers in all_answers:
        total.statuses.update(answers.statuses)
        total.seconds += answers.seconds
    return total


def _end(url: str, token: str, id: str, after: float) -> tuple[int, float]:
    """Delete a key after some seconds. Return the status and its seconds."""
    time.sleep(after)
    before = time.monotonic()
    answer = httpx.delete(f"{url}/api_keys/{id}", headers=_headers(token), timeout=60, trust_env=False)
    return answer.status_code, time.monotonic() - before


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Service-Version": "2"}


def _key(url: str, token: str) -> dict[str, str]:
    """Return a second key of an admin."""
    response = httpx.post(f"{url}/api_keys", json={}, headers=_headers(token), timeout=60, trust_env=False)
    response.raise_for_status()
    key: dict[str, str] = response.json()
    return key


def _accounts(settings: dict[str, str], limit: int) -> list[str]:
    """Return tokens of new accounts. The first account has a limit."""
    environment = {**os.environ, **settings}
    command = [sys.executable, "-c", _ACCOUNTS]
    process = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    accounts = [line.split() for line in process.stdout.splitlines()]
    limits = [sys.executable, "-m", "chalicelib", "accounts", "limits", accounts[0][0]]
    limits += ["--requests-per-second", str(limit), "--burst", str(limit)]
    subprocess.run(limits, cwd=ROOT, env=environment, check=True, capture_output=True)
    return [token for _, token in accounts]


@contextmanager
def _local(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    process, api = serve(folder / "served")
    try:
        yield api.base_url, dict(api.cloud)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _deploy(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    embedded = cloud.Cloud(folder / "cloud", free_port(), AUTH="true", PERSIST_STATE="0")
    embedded.start()
    try:
        settings = {**embedded.settings, "TABLE_NAME": _NAME, "KEY_ID": f"alias/{_NAME}"}
        cloud.use_cloud(settings)
        stacks.make_bucket(_BUCKET)
        outputs = service.deploy(ROOT / "build" / "dev", _NAME, _BUCKET, {"AlarmTopicArn": "none"})
        yield f"{settings['AWS_ENDPOINT_URL']}/restapis/{outputs['RestAPIId']}/dev/_user_request_", settings
    finally:
        embedded.stop()


if __name__ == "__main__":
    main()
