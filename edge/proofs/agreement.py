"""Decides whether the name servers of a domain agree on its records. This file does no I/O.

The servers agree if a majority of the answering servers, and at least a quorum (a number of servers), return the same
records.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Records:
    """The records of one type that a server returns for a name, as texts. `values` is empty if there are none."""

    values: frozenset[str]


@dataclass(frozen=True)
class FailedQuery:
    """The failure of a server to give a usable answer.

    `why` completes a sentence with the server as subject, for example "does not answer".
    """

    why: str


Answer = Records | FailedQuery


def find_agreement(
    answers: Sequence[Answer], key: Callable[[Records], Hashable], *, server_count: int, quorum: int
) -> Records | None:
    """Return the records on which enough servers agree, or None while more answers are needed.

    `server_count` is the number of queried servers. `answers` has the answers that have arrived so far. Two servers
    agree if the function `key` returns the same value for their records.
    """
    records = [answer for answer in answers if isinstance(answer, Records)]
    # the number of servers that have returned records or have not answered yet
    answering = server_count - len(answers) + len(records)
    for value, count in Counter(map(key, records)).most_common(1):
        if count >= quorum and 2 * count > answering:
            return next(answer for answer in records if key(answer) == value)
    return None


def describe_disagreement(answers: Sequence[Answer], name: str) -> str:
    """Return a sentence that explains why the servers do not agree, from their answers."""
    failures = [answer.why for answer in answers if isinstance(answer, FailedQuery)]
    answered = len(answers) - len(failures)
    if answered > 1:
        return f"The name servers of {name} do not agree: wait until all of them have the same records."
    if answered:
        return f"Only one name server of {name} answers, and two must agree; another server {failures[0]}."
    return f"No name server of {name} gives a usable answer: one {' and another one '.join(dict.fromkeys(failures))}."
