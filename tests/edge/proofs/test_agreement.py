"""When name servers agree, as a table; and what is said where they do not."""

import pytest

from edge.proofs.agreement import Answer, FailedQuery, Records, describe_disagreement, find_agreement

YES, NO, MORE = Records(frozenset("v")), Records(frozenset()), Records(frozenset("vw"))
TIMEOUT, FAILURE = FailedQuery("does not answer"), FailedQuery("answers SERVFAIL")


@pytest.mark.parametrize(
    ("answers", "asked", "quorum", "outcome"),
    [
        ([], 2, 2, None),
        ([YES], 2, 2, None),
        ([YES, YES], 2, 2, True),
        ([NO, NO], 2, 2, False),
        ([YES, MORE], 2, 2, True),
        ([YES, NO], 2, 2, None),
        ([YES, TIMEOUT], 2, 2, None),
        ([TIMEOUT, FAILURE], 2, 2, None),
        ([YES, YES], 3, 2, True),
        ([YES, NO, YES], 3, 2, True),
        ([NO, YES, NO], 3, 2, False),
        ([NO, YES, YES], 3, 2, True),
        ([YES, NO, TIMEOUT], 3, 2, None),
        ([YES, YES], 4, 2, None),
        ([YES, YES, YES], 4, 2, True),
        ([YES, YES, NO], 4, 2, None),
        ([YES, YES, TIMEOUT], 4, 2, True),
        ([YES, YES, NO, NO], 4, 2, None),
        ([YES, YES, NO, TIMEOUT], 4, 2, True),
        ([YES, YES, TIMEOUT, TIMEOUT], 4, 2, True),
        ([YES, TIMEOUT, TIMEOUT, TIMEOUT], 4, 2, None),
        ([YES], 1, 1, True),
        ([NO], 1, 1, False),
        ([TIMEOUT], 1, 1, None),
    ],
)
def test_a_majority_of_those_that_answer_and_a_quorum_agree(
    answers: list[Answer], asked: int, quorum: int, outcome: bool | None
) -> None:
    agreed_records = find_agreement(answers, lambda records: "v" in records.values, server_count=asked, quorum=quorum)
    assert (agreed_records and "v" in agreed_records.values) == outcome


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [YES, NO, TIMEOUT],
            "The name servers of d.example do not agree: wait until all of them have the same records.",
        ),
        (
            [YES, FAILURE],
            "Only one name server of d.example answers, and two must agree; another server answers SERVFAIL.",
        ),
        ([FAILURE, FAILURE], "No name server of d.example gives a usable answer: one answers SERVFAIL."),
        (
            [FAILURE, TIMEOUT],
            "No name server of d.example gives a usable answer: one answers SERVFAIL and another one does not answer.",
        ),
    ],
)
def test_what_is_said_where_nothing_follows(answers: list[Answer], sentence: str) -> None:
    assert describe_disagreement(answers, "d.example") == sentence
