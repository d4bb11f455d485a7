"""Answers to pending HTTP-01 challenges. The issuer, which orders certificates, stores them. The edge's control process
sends them to the CA.

Each write adds an entry to the change log. The control process reads an answer only after such an entry.
"""

from dataclasses import dataclass

from chalicelib import clock
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log, decoding
from chalicelib.storage.records.change_log import ItemKey

PREFIX = "acme_challenge#"  # the start of partition keys; each partition has one record, with the domain as its id
LIFETIME = 60 * 60  # seconds for which the answer to a challenge is stored


@dataclass(frozen=True)
class PendingChallenge:
    """The token of a challenge, and the body that answers it."""

    token: str
    answer: str


def put(domain: str, challenge: PendingChallenge) -> None:
    """Store the answer to a domain's challenge for an hour. Raises aws.Unavailable."""
    expires = clock.seconds() + LIFETIME
    record = {"scope": f"{PREFIX}{domain}", "id": domain, "body": vars(challenge), "expires": expires, "revision": 1}
    dynamodb.transact([Write.put(record), change_log.entry_of(ItemKey(f"{PREFIX}{domain}", domain))])


def find(domain: str) -> PendingChallenge | None:
    """Return the pending challenge of a domain, or None. Raises MalformedRecord, aws.Unavailable."""
    record = dynamodb.get(f"{PREFIX}{domain}", domain)
    if record is None or record["expires"] <= clock.seconds():
        return None
    return decoding.decode(PendingChallenge, record["body"])


def remove(domain: str) -> None:
    """Remove the answer to a domain's challenge, if there is one. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(f"{PREFIX}{domain}", domain))


def find_domain(item_key: ItemKey) -> str | None:
    """Return the domain of an answer, given its primary key. Return None for any other primary key."""
    return item_key.id if item_key.scope == f"{PREFIX}{item_key.id}" else None
