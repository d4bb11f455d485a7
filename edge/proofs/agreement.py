"""When name servers agree: a majority of those that answer, and never fewer than a quorum. Pure."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Records:
    """The records of the asked kind that a server has of a name, as texts; none where it has none."""

    values: frozenset[str]


@dataclass(frozen=True)
class Failed:
    """A server that gave no answer that counts, and why: the end of a sentence about it."""

    why: str


Answer = Records | Failed


def agreed(answers: Sequence[Answer], say: Callable[[Records], Hashable], *, asked: int, quorum: int) -> Records | None:
    """Return the records of one of the servers that agree, given the answers until now; None while nothing follows.

    Servers agree that say the same, by `say`, and so many were asked.
    """
    known = [it for it in answers if isinstance(it, Records)]
    answering = asked - len(answers) + len(known)  # at most
    for said, count in Counter(map(say, known)).most_common(1):
        if count >= quorum and 2 * count > answering:
            return next(it for it in known if say(it) == said)
    return None


def disagreement(answers: Sequence[Answer], name: str) -> str:
    """Return a sentence about the answers of all servers, of which nothing follows."""
    failed = [it.why for it in answers if isinstance(it, Failed)]
    answered = len(answers) - len(failed)
    if answered > 1:
        return f"The name servers of {name} do not agree: wait until all of them have the same records."
    if answered:
        return f"Of the name servers of {name} only one answers, and two must agree; another one {failed[0]}."
    return f"No name server of {name} answers: one {' and another one '.join(dict.fromkeys(failed))}."
