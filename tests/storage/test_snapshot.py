"""A process that was restored from a snapshot: forks of a warmed process differ in ids, pauses and connections."""

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.conftest import ROOT

# Python seeds random numbers again in a forked process. A snapshot does not, so that the script undoes it.
_SCRIPT = """
import json, os, random, sys
from chalicelib import ids
from chalicelib.model.limits.counters import OF_PROCESS, Use
from chalicelib.model.limits.rates import Rate
from chalicelib.storage import snapshot
from chalicelib.storage.client import dynamodb

use = Use("acct_x#/limits/account", Rate(1, 1))
dynamodb.get("a", "b"), ids.new("x"), OF_PROCESS.admit([use], 1000.0)
state = random.getstate()
for _ in range(2):
    sys.stdout.flush()
    if not os.fork():
        random.setstate(state)
        if sys.argv[1] == "renewed":
            snapshot.renew()
        dynamodb.get("a", "b")
        print(json.dumps([ids.new("x"), random.random(), OF_PROCESS.admit([use], 1000.0)[0]]), flush=True)
        os._exit(0)
    os.wait()
"""


@contextmanager
def store() -> Iterator[tuple[str, dict[int, int]]]:
    """Serve a store without records; yield its URL, and how many requests came over each connection."""
    requests: dict[int, int] = defaultdict(int)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            requests[self.client_address[1]] += 1
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


def run_restored(mode: str) -> tuple[list[list[Any]], dict[int, int]]:
    """Return what two processes of one snapshot say, and the requests over each connection."""
    with store() as (url, requests):
        environment = {**os.environ, "AWS_ENDPOINT_URL": url}
        command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, mode]
        output = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
        return [json.loads(line) for line in output.splitlines()], dict(requests)


def test_restored_processes_have_ids_pauses_connections_and_counts_of_their_own() -> None:
    ((first_id, first_random, *first), (second_id, second_random, *second)), requests = run_restored("renewed")
    assert first_id != second_id
    assert first_random != second_random
    assert (first, second) == ([True], [True])
    assert [*requests.values()] == [1, 1, 1]


def test_without_the_renewal_they_would_share_pauses_connections_and_counts() -> None:
    ((first_id, first_random, *first), (second_id, second_random, *second)), requests = run_restored("not renewed")
    assert first_id != second_id
    assert first_random == second_random
    assert (first, second) == ([False], [False])
    assert [*requests.values()] == [3]
