"""Answers of challenges in the table: an hour long, and named in the change log."""

from chalicelib import clock
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey

DOMAIN, CHALLENGE = "app.example.com", PendingChallenge("token", "token.print")


def test_an_answer_is_read_until_it_is_removed() -> None:
    challenge_records.put(DOMAIN, CHALLENGE)
    assert challenge_records.find(DOMAIN) == CHALLENGE
    assert challenge_records.find("other.example.com") is None
    challenge_records.remove(DOMAIN)
    challenge_records.remove(DOMAIN)
    assert challenge_records.find(DOMAIN) is None


def test_an_answer_ends_after_an_hour() -> None:
    challenge_records.put(DOMAIN, CHALLENGE)
    record = dynamodb.get(f"acme_challenge#{DOMAIN}", DOMAIN)
    assert record
    now = clock.seconds()
    assert now + 3590 <= record["expires"] <= now + 3600
    dynamodb.do(Write.put({**record, "expires": now}))  # the table removes it later
    assert challenge_records.find(DOMAIN) is None


def test_the_change_log_names_the_domain() -> None:
    challenge_records.put(DOMAIN, CHALLENGE)
    (change,) = change_log.read_since(0)
    assert [challenge_records.find_domain(item_key) for item_key in change.item_keys] == [DOMAIN]
    assert challenge_records.find_domain(ItemKey("edge#/special/1", DOMAIN)) is None
