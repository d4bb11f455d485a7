"""Clients that read and write while an operation runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.transports import Client

CLIENTS = 16


@contextmanager
def clients(client: Client) -> Iterator[list[int]]:
    """Let 16 clients of an account create, read and delete resources in this block. Yields the statuses they got."""
    statuses: list[int] = []
    stop, turn = threading.Event(), threading.Lock()  # Chalice serves one request at a time in a process

    def work() -> None:
        while not stop.is_set():
            with turn:
                backend = client.post("/backends/http_response", {"body": "busy"})
            path = f"/backends/http_response/{backend.json['id']}"
            with turn:
                statuses.extend([backend.status, client.get(path).status])
            with turn:
                statuses.append(client.delete(path).status)
            stop.wait(0.02)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()
