"""Decides whether the name servers of a domain agree on its records. This file does no I/O.

They agree if a majority of the answering servers, and at least a quorum (a number of servers), return the same records.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Records:
    """The records of one type that a server returns for a name, as texts. `values` is empty if there are none."""

    values: frozenset[str]


@dataclass(frozen=True)
class Failed:
    """The failure of a server to give a usable answer.

    `why` completes a sentence with the server as subject, for example "does not answer".
    """

    why: str


Answer = Records | Failed


def agreed(answers: Sequence[Answer], say: Callable[[Records], Hashable], *, asked: int, quorum: int) -> Records | None:
    """Return the records on which enough servers agree, or None while more answers are needed.

    `asked` is the number of queried servers. `answers` has the answers that have arrived so far. Two servers agree if
    the function `say` returns the same value for their records.
    """
    known = [it for it in answers if isinstance(it, Records)]
    # the number of servers that have returned records or have not answered yet
    answering = asked - len(answers) + len(known)
    for said, count in Counter(map(say, known)).most_common(1):
        if count >= quorum and 2 * count > answering:
            return next(it for it in known if say(it) == said)
    return None


def disagreement(answers: Sequence[Answer], name: str) -> str:
    """Return a sentence that explains why the servers do not agree, from their answers."""
    failed = [it.why for it in answers if isinstance(it, Failed)]
    answered = len(answers) - len(failed)
    if answered > 1:
        return f"The name servers of {name} do not agree: wait until all of them have the same records."
    if answered:
        return f"Only one name server of {name} answers, and two must agree; another server {failed[0]}."
    return f"No name server of {name} gives a usable answer: one {' and another one '.join(dict.fromkeys(failed))}."
