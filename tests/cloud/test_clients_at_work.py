"""The clients of the rehearsal outlive requests without an answer, and say what differed."""

from tests.cloud.clients_at_work import UNANSWERED, Following, Work, differences

RECORDS = {"/ssh_certificate_authorities/sshca_1": {}, "/bot_users/bot_1": {"name": "bot"}}


def test_a_request_without_an_answer_is_counted_and_the_clients_go_on() -> None:
    assert Following().send("GET", "/bot_users", {}, b"").status == UNANSWERED  # there is no stack with an API
    work = Work("token", RECORDS, pause=0)
    with work.by(2):
        work.await_answers(10)
    assert work.answers == work.unanswered
    assert work.answers["before"] >= 10
    assert (work.errors, work.new_records) == ([], {})


def test_a_field_that_was_added_is_no_difference_and_any_other_is_one() -> None:
    before = {"a": {"b": 1, "c": [1, 2]}, "d": "x"}
    assert [*differences(before, {**before, "new": 1})] == []
    assert [*differences(before, {"a": {"b": 2, "c": [1]}})] == [
        ".a.b: 1 is 2",
        ".a.c: [1, 2] is [1]",
        ".d: x is (absent)",
    ]
