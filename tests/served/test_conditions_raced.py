"""Conditions on changes while many act at once: what somebody has not seen, they do not overwrite."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from chalicelib import ids
from tests.transports import Answer, Client

WRITERS = 8


def together(act: Callable[[int], Answer]) -> Counter[int]:
    """Return how often each status answered what is done by all writers at once."""
    begin = Barrier(WRITERS)

    def one(number: int) -> int:
        begin.wait(timeout=30)
        return act(number).status

    with ThreadPoolExecutor(WRITERS) as threads:
        return Counter(threads.map(one, range(WRITERS)))


def anywhere() -> str:
    """Return the address of a module of an edge that no account has registered."""
    return f"/edges/tls/{ids.new('edgtls')}/mutual_tls"


def module(number: int) -> dict[str, Any]:
    return {"certificate_authority_ids": [f"ca_{number:027}"]}


def test_of_many_who_change_a_resource_under_one_tag_one_does(http: Client) -> None:
    made = http.post("/backends/weighted", {})
    address = f"/backends/weighted/{made.json['id']}"
    tag = made.headers["etag"]
    statuses = together(lambda it: http.send("PATCH", address, {"description": f"{it}"}, If_Match=tag))
    assert statuses == {200: 1, 412: WRITERS - 1}


@pytest.mark.parametrize("condition", ["If_Match", "If_None_Match"])
def test_of_many_who_put_a_module_under_one_condition_one_does(http: Client, condition: str) -> None:
    address = anywhere()
    value = "*" if condition == "If_None_Match" else http.put(address, module(WRITERS)).headers["etag"]
    statuses = together(lambda it: http.send("PUT", address, module(it), **{condition: value}))
    assert statuses == {200: 1, 412: WRITERS - 1}


def test_a_module_that_is_made_again_meanwhile_is_not_overwritten_under_an_earlier_tag(http: Client) -> None:
    for _ in range(10):
        address = anywhere()
        tag = http.put(address, module(0)).headers["etag"]

        def act(number: int, address: str = address, tag: str = tag) -> Answer:
            if number:
                return http.send("PUT", address, module(1), If_Match=tag)
            assert http.delete(address).status == 204
            return http.put(address, module(2))

        assert together(act).keys() <= {200, 412}
        assert [it["id"] for it in http.get(address).json["certificate_authorities"]] == [f"ca_{2:027}"]
