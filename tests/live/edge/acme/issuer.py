"""Issuers of the tests, as processes: `python -m tests.live.edge.acme.issuer` with their options as JSON."""

import asyncio
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chalicelib.model.names import renewal_schedule
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls.renewals import Method
from chalicelib.storage.client import aws
from edge.issuer import issuer_settings, issuing, key_making
from edge.issuer.attempt import Attempt
from edge.issuer.issuer import Pace
from edge.issuer.issuing import Parameters
from edge.issuer.txt_records import TxtRecords
from edge.process import settings as environment

_POLL, _RETIRE = 0.5, 1  # seconds


@dataclass(frozen=True)
class Options:
    """`killed` are steps by domain, as "before answer": first, one issuer for each is killed by itself there.

    These issuers claim their domains for `claim` seconds. `keys` is where keys are made: in a child for each of them,
    as the issuer of an edge does it, or in the process of the issuer, which takes less of the processor.
    """

    claim: int = 600
    killed: Mapping[str, str] = field(default_factory=dict)
    keys: Literal["child", "process"] = "child"


@dataclass
class Clock:
    """A clock that is some seconds ahead. Each line on standard input has how many."""

    ahead: int = 0

    def __call__(self) -> float:
        return time.time() + self.ahead

    def follow(self) -> None:
        for line in sys.stdin:
            self.ahead = int(line)


def main() -> None:
    """Kill the issuers that are to be killed, and then run one. It prints a line when all have been killed."""
    options = Options(**json.loads(sys.argv[1]))
    for service in ("dynamodb", "kms"):
        aws.client(service)  # before the forks, each of which would make its own
    children = [_fork(options, domain, step) for domain, step in options.killed.items()]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    print(f"{statuses.count(signal.SIGKILL)} killed", flush=True)
    clock = Clock()
    threading.Thread(target=clock.follow, daemon=True).start()
    settings = environment.from_environment()
    settings.directory.mkdir(parents=True, exist_ok=True)
    make_key = {"child": key_making.make_in_child, "process": key_making.make}[options.keys]
    asyncio.run(issuing.serve(settings, Parameters(Pace(_POLL, retire=_RETIRE), now=clock, make_key=make_key)))


def _fork(options: Options, domain: str, step: str) -> int:
    """Start an issuer of one domain that is killed at a step. Return its process id."""
    if child := os.fork():
        return child
    try:
        _order(options, domain, step)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)


def _order(options: Options, domain: str, step: str) -> None:
    """Claim a domain, and make an attempt until the process is killed."""
    settings = issuer_settings.from_environment()
    ca: Any = Mortal(issuing.connect(settings), step)
    txt = TxtRecords(settings.dns, _find_none) if settings.dns else None
    attempt = Attempt(ca, _preflight, txt, keys=key_making.make, sleep=lambda _: time.sleep(_POLL))
    now = int(time.time())
    for due in renewal_schedule.find_due(now, 100):
        if due.stored and due.stored.domain == domain:
            claim = renewal_schedule.claim(due, now, now + options.claim)
            assert claim
            attempt.run(claim)


class Mortal:
    """A CA at one of whose methods the process is killed."""

    def __init__(self, ca: Any, step: str) -> None:
        self._ca = ca
        self._when, self._method = step.split()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._ca, name)
        return self._killing(attribute) if name == self._method else attribute

    def _killing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_kill(*arguments: Any, **keywords: Any) -> None:
            if self._when == "after":
                call(*arguments, **keywords)
            os.kill(os.getpid(), signal.SIGKILL)

        return call_and_kill


def _preflight(_id: str, stored: ReservedDomain) -> Method:
    return "dns-01" if stored.domain.startswith("*.") else "http-01"


async def _find_none(*_: Any) -> list[str]:
    """Return the name servers that lack a record: none."""
    return []


if __name__ == "__main__":
    main()
