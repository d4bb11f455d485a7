"""Clients that read and write while an operation runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.transports import Client

CLIENTS = 16


@contextmanager
def clients(own: Client) -> Iterator[list[int]]:
    """Let 16 clients of an account create, read and delete resources in this block. Yields the statuses they got."""
    statuses: list[int] = []
    done, turn = threading.Event(), threading.Lock()  # Chalice serves one request at a time in a process

    def work() -> None:
        while not done.is_set():
            with turn:
                made = own.post("/backends/http_response", {"body": "busy"})
            path = f"/backends/http_response/{made.json['id']}"
            with turn:
                statuses.extend([made.status, own.get(path).status])
            with turn:
                statuses.append(own.delete(path).status)
            done.wait(0.02)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()
