"""How backends share requests, as rules."""

import time
from collections.abc import Mapping

import pytest

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving import shares
from chalicelib.model.serving.shares import MAX_BACKENDS, WHOLE

GROUP, OTHER, ANSWER, STRANGE = "bkdtg_a", "bkdtg_b", "bkdhr_a", "bkdtg_strange"
ODD = "bkdhr_odd"
LEAVES = {
    GROUP: ServedBackend("acct_a", GROUP, TunnelGroup()),
    OTHER: ServedBackend("acct_a", OTHER, TunnelGroup()),
    ANSWER: ServedBackend("acct_a", ANSWER, HttpResponse()),
    ODD: ServedBackend("acct_a", ODD, HttpResponse(status_code=103)),
    STRANGE: ServedBackend("acct_b", STRANGE, TunnelGroup()),
}


def build_backends(**weighted: Mapping[str, int]) -> dict[str, ServedBackend]:
    """Return the leaves, and weighted backends named `bkdwd_` and a letter."""
    weighted_backends = {f"bkdwd_{name}": Weighted(backends=children) for name, children in weighted.items()}
    return LEAVES | {id: ServedBackend("acct_a", id, value) for id, value in weighted_backends.items()}


@pytest.mark.parametrize(
    ("weighted", "parts", "error"),
    [
        ({"r": {GROUP: 1}}, {GROUP: 1.0}, ""),
        ({"r": {GROUP: 1, OTHER: 1, ANSWER: 2}}, {GROUP: 0.25, OTHER: 0.25, ANSWER: 0.5}, ""),
        ({"r": {GROUP: 0, OTHER: 7}}, {OTHER: 1.0}, ""),
        ({"r": {GROUP: 0}}, {}, ""),
        ({"r": {}}, {}, ""),
        ({"r": {GROUP: 1, "bkdwd_s": 3}, "s": {OTHER: 1, ANSWER: 2}}, {GROUP: 0.25, OTHER: 0.25, ANSWER: 0.5}, ""),
        ({"r": {GROUP: 1, "bkdwd_s": 1}, "s": {GROUP: 1, OTHER: 1}}, {GROUP: 0.75, OTHER: 0.25}, ""),
        ({"r": {GROUP: 1, "bkdwd_s": 1}, "s": {OTHER: 0}}, {GROUP: 1.0}, ""),
        ({"r": {GROUP: 1, "bkdtg_gone": 9}}, {GROUP: 1.0}, "The backend bkdtg_gone does not exist."),
        ({"r": {GROUP: 1, STRANGE: 9}}, {GROUP: 1.0}, "The backend bkdtg_strange does not exist."),
        (
            {"r": {GROUP: 1, ODD: 9}},
            {GROUP: 1.0},
            "bkdhr_odd has the status_code 103, which is not a final response: use 200 or above.",
        ),
        (
            {"r": {"bkdwd_r": 1}},
            {},
            "The backend bkdwd_r shares traffic with itself, directly or through other backends, so it receives none.",
        ),
        (
            {"r": {GROUP: 1, "bkdwd_s": 1}, "s": {"bkdwd_t": 1, OTHER: 1}, "t": {"bkdwd_s": 1, OTHER: 1}},
            {GROUP: 1.0},
            (
                "The backend bkdwd_s shares traffic with itself, directly or through other backends, so it receives "
                "none. The backend bkdwd_t shares traffic with itself, directly or through other backends, so it "
                "receives none."
            ),
        ),
        (
            {"r": {"bkdwd_s": 1, "bkdwd_t": 1}, "s": {"bkdwd_u": 1}, "t": {"bkdwd_u": 1}, "u": {ANSWER: 1}},
            {ANSWER: 1.0},
            "",
        ),
    ],
)
def test_a_backend_shares_by_the_products_of_the_weights(
    weighted: Mapping[str, Mapping[str, int]], parts: Mapping[str, float], error: str
) -> None:
    resolution = shares.resolve("bkdwd_r", "acct_a", build_backends(**weighted))
    assert {id: weight / WHOLE for id, weight in resolution.weights} == pytest.approx(parts)
    assert resolution.error == error


def test_a_group_or_a_response_has_all() -> None:
    assert shares.resolve(GROUP, "acct_a", LEAVES).weights == ((GROUP, WHOLE),)
    assert shares.resolve(STRANGE, "acct_a", LEAVES).weights == ()


def test_the_least_share_is_not_lost() -> None:
    deep = build_backends(r={GROUP: 10_000, "bkdwd_s": 1}, s={GROUP: 10_000, "bkdwd_t": 1}, t={GROUP: 10_000, OTHER: 1})
    assert dict(shares.resolve("bkdwd_r", "acct_a", deep).weights)[OTHER] == 1


def test_what_one_route_leads_to_is_bounded() -> None:
    many = {f"bkdtg_{number:03}": ServedBackend("acct_a", f"bkdtg_{number:03}", TunnelGroup()) for number in range(300)}
    halves = {f"bkdwd_{index}": dict.fromkeys(sorted(many)[index::3], 1) for index in range(3)}
    roots = {"bkdwd_r": dict.fromkeys(halves, 1)} | halves
    backends = many | {id: ServedBackend("acct_a", id, Weighted(backends=children)) for id, children in roots.items()}
    assert (
        shares.resolve("bkdwd_r", "acct_a", backends).error
        == f"The backend shares traffic between more than {MAX_BACKENDS} backends, the maximum."
    )


@pytest.mark.parametrize(("more", "is_bounded"), [(1, False), (0, True)])
def test_a_backend_leads_to_as_many_as_it_may(more: int, is_bounded: bool) -> None:
    many = {f"bkdtg_{number:03}": ServedBackend("acct_a", f"bkdtg_{number:03}", TunnelGroup()) for number in range(200)}
    root = ServedBackend("acct_a", "bkdwd_r", Weighted(backends=dict.fromkeys(sorted(many)[more:], 1)))
    resolution = shares.resolve("bkdwd_r", "acct_a", many | {"bkdwd_r": root})
    assert (len(resolution.weights), bool(resolution.error)) == (0 if is_bounded else MAX_BACKENDS - 1, is_bounded)


def test_the_worst_that_leads_to_many_takes_no_time() -> None:
    names = [f"bkdwd_{number:03}" for number in range(MAX_BACKENDS)]
    dense = {
        name: ServedBackend("acct_a", name, Weighted(backends=dict.fromkeys(names[index + 1 : index + 100], 1)))
        for index, name in enumerate(names)
    }
    begin = time.process_time()
    assert shares.resolve(names[0], "acct_a", dense).weights == ()
    assert time.process_time() - begin < 0.2
