"""Clients that use an API while it is upgraded, and every answer that differs from before."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import boto3
import httpx
from botocore.exceptions import BotoCoreError, ClientError

from infra.local import cloud
from tests.samples import BODIES
from tests.transports import Answer, Client, Http

STACK = "tunnel-edge-api"
UNANSWERED = 0  # the status of a request without an answer: a time-out, or a connection that ended
_BACKENDS, _CERTIFICATES = "/backends/http_response", "/ssh_user_certificates"
_AUTHORITIES = "/ssh_certificate_authorities/"
_SILENCE = 600  # seconds


class Following:
    """A transport to an API whose address changes: the emulated cloud replaces an API whose definition changes.

    The real one keeps its address. Each answer that only the moved address explains is counted, and the request
    repeated. A request without an answer gets one with the status UNANSWERED.
    """

    base_url = ""  # so that URIs keep the address that the first deployment set
    moved: ClassVar[list[float]] = []

    def __init__(self) -> None:
        self._http: Http | None = None

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            return self._send(method, path, headers, body)
        except (httpx.TransportError, BotoCoreError, ClientError) as error:
            self._http = None
            return Answer(UNANSWERED, {}, type(error).__name__)

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        for _ in range(600):
            self._http = self._http or Http(address())
            answer = self._http.send(method, path, headers, body)
            if (answer.status, answer.text) != (404, '{"message": "Not Found"}'):  # which is the gateway's
                break
            self.moved.append(time.monotonic())
            time.sleep(0.1)
            self._http = None
        return answer


def address() -> str:
    """Return the URL that the API has now."""
    stack = boto3.client("cloudformation", endpoint_url=cloud.endpoint_url())
    description = stack.describe_stack_resource(StackName=STACK, LogicalResourceId="RestAPI")
    return (
        f"{cloud.endpoint_url()}/restapis/{description['StackResourceDetail']['PhysicalResourceId']}/dev/_user_request_"
    )


def client(token: str) -> Client:
    """Return a client of any version: its answers are not checked against the document of this one."""
    return Client(Following(), token, check=lambda *_: None)


def differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield where an answer lacks a value of before, or has another one; an added field is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from differences(value, after.get(name, "(absent)"), f"{at}.{name}")
    elif before != after:
        yield f"{at}: {str(before)[:60]} is {str(after)[:60]}"


@dataclass
class Work:
    """The work of the clients: their answers, by step, and what differed from before."""

    token: str
    records: dict[str, Any]
    pause: float = 0.5  # seconds before each request: else the emulator is busy with nothing else
    step: str = "before"
    answers: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    errors: list[tuple[float, str, str]] = field(default_factory=list)
    new_records: dict[str, Any] = field(default_factory=dict)  # and not deleted
    ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def by(self, count: int) -> Iterator[None]:
        """Have this many clients at work during the block."""
        workers = [threading.Thread(target=self._work) for _ in range(count)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self.ends.set()
            for worker in workers:
                worker.join()

    def await_answers(self, count: int = 300) -> None:
        """Wait until the clients have had so many answers more. Fail if none comes for a long time."""
        had, last = self.answers.total(), time.monotonic()
        enough, count_so_far = had + count, had
        while count_so_far < enough:
            assert time.monotonic() - last < _SILENCE, f"{self.step}: no answer for {_SILENCE} s"
            time.sleep(0.2)
            if self.answers.total() > count_so_far:
                count_so_far, last = self.answers.total(), time.monotonic()

    def summary(self) -> str:
        """Return the numbers of the step so far."""
        errors = sum(step == self.step for _, step, _ in self.errors)
        return f"{self.answers[self.step]} answers, {errors} others, {self.unanswered[self.step]} unanswered"

    def _work(self) -> None:
        caller, paths = client(self.token), list(self.records)
        authorities = [path.removeprefix(_AUTHORITIES) for path in paths if path.startswith(_AUTHORITIES)]
        while not self.ends.is_set():
            try:
                for path in random.choices(paths, k=8):
                    self._note("GET", path, 200, self._ask(caller, "GET", path), self.records[path])
                self._sign(caller, random.choice(authorities))
                self._change_backend(caller)
            except Exception as error:  # an answer that cannot even be read: the client goes on, and the run fails
                self.errors.append((time.monotonic(), self.step, f"{type(error).__name__}: {error}"))

    def _sign(self, caller: Client, authority: str) -> None:
        body = {**BODIES["/ssh_credentials"](caller), "ssh_certificate_authority_id": authority}
        answer = self._ask(caller, "POST", _CERTIFICATES, body)
        if self._note("POST", _CERTIFICATES, 201, answer, {}):
            self.new_records[f"{_CERTIFICATES}/{answer.json['id']}"] = answer.json

    def _change_backend(self, caller: Client) -> None:
        backend = self._ask(caller, "POST", _BACKENDS, {"description": "made meanwhile"})
        if not self._note("POST", _BACKENDS, 201, backend, {"description": "made meanwhile"}):
            return
        path, change = f"{_BACKENDS}/{backend.json['id']}", {"description": "changed meanwhile"}
        if self._note("PATCH", path, 200, self._ask(caller, "PATCH", path, change), change):
            self._note("GET", path, 200, self._ask(caller, "GET", path), {**backend.json, **change})
        self._note("DELETE", path, 204, self._ask(caller, "DELETE", path), None)

    def _ask(self, caller: Client, method: str, path: str, body: Any = None) -> Answer:
        self.ends.wait(self.pause)
        return caller.send(method, path, body)

    def _note(self, method: str, path: str, status: int, answer: Answer, body: Any) -> bool:
        """Count an answer. Return whether it has the expected status and body."""
        self.answers[self.step] += 1
        if answer.status == UNANSWERED:
            self.unanswered[self.step] += 1
            return False
        wrong = [f"{answer.status} {answer.text[:160]}"] if answer.status != status else []
        if not wrong and body is not None:
            wrong = [*differences(body, answer.json)]
        self.errors += [(time.monotonic(), self.step, f"{method} {path}: {difference}") for difference in wrong]
        return not wrong
