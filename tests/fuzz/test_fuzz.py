"""The document is believed: what it allows is accepted, what it forbids refused, and every answer is as it says.

In a bounded time and the same on every run; `make fuzz` tries every limit of every operation, and more by chance.
"""

from tests.conftest import Served
from tests.fuzz import runs

SAME = ("--generation-deterministic", "--no-shrink")

# A query, a body and a path have all their limits, headers and methods tried: every other is read by the same code.
WIDEST = ("list_https_edge_routes", "create_http_response_backend", "delete_https_edge_route_oauth")


def test_every_operation_does_what_the_document_says(served: Served) -> None:
    phases = ("--phases", "examples,fuzzing,stateful", "--max-examples", "1")
    process = runs.run(served.newcomer(), *SAME, *phases, capture=True)
    assert process.returncode == 0, process.stdout + process.stderr


def test_every_limit_of_an_operation_is_where_the_document_says(served: Served) -> None:
    names = [word for name in WIDEST for word in ("--include-operation-id", name)]
    process = runs.run(served.newcomer(), *SAME, "--phases", "coverage", *names, capture=True)
    assert process.returncode == 0, process.stdout + process.stderr
