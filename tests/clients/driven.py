"""A generated client in a process of its own, which calls what it is told: a line of JSON in, a line of JSON out."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chalicelib.http.endpoints import Endpoint
from infra.build.openapi.names import Operation
from tests.conftest import Served


@dataclass(frozen=True)
class Driven:
    """A client that is driven; `answers` of a call are what its own models hold, written in JSON again."""

    process: subprocess.Popen[str]

    def call(self, endpoint: Endpoint, ids: Sequence[str] = (), body: Any = None, **query: Any) -> tuple[int, Any]:
        """Have it send one request; its status, and its body."""
        operation = Operation.of(endpoint)
        request = {
            "operation": operation.name,
            "method": endpoint.method.lower(),
            "template": operation.path,
            "path": dict(zip(operation.ids, ids, strict=True)),
            "ids": ids,
            "query": query,
            "schema": operation.request_schema if operation.body else "",
            "body": body,
        }
        return self._exchange(request)

    def _exchange(self, request: Mapping[str, Any]) -> tuple[int, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the client broke off at {request}"
        answer = json.loads(line.replace('+00:00"', 'Z"'))  # as some write the times that they read
        return answer["status"], answer["body"]


@contextmanager
def start_client(api: Served, command: Sequence[str | Path], **settings: Any) -> Iterator[Driven]:
    """Yield a client that was started by a command, with the address of the API and a key of its own."""
    process = subprocess.Popen(
        [*command, api.base_url, api.token], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **settings
    )
    try:
        yield Driven(process)
    finally:
        process.communicate(timeout=30)
