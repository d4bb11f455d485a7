"""Which certificate a host name is served with. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.domains import WILDCARD

OPERATOR = "operator"  # in the place of a certificate's id: the operator's own


@dataclass(frozen=True)
class Candidate:
    """A certificate of the account that has the host: its id, its names, and when it is valid, in Unix seconds."""

    id: str
    names: tuple[str, ...]
    not_before: int
    not_after: int


def choose(host: str, candidates: Iterable[Candidate], now: int, *, wanted: str = "", is_below: bool = True) -> str:
    """Return the id of the certificate for a host, OPERATOR for the operator's own, "" where there is none.

    That is the one that the reservation of the host wants, whatever its names; else the account's own for just this
    name, else that for all names beside it, of several the one that runs longest; else the operator's, where the host
    lies below TUNNEL_DOMAIN.
    """
    valid = [it for it in candidates if it.not_before <= now < it.not_after]
    if any(it.id == wanted for it in valid):
        return wanted
    beside = WILDCARD + host.removeprefix(WILDCARD).partition(".")[2]
    for name in (host, beside) if not host.startswith(WILDCARD) else (host,):
        if fitting := [it for it in valid if name in {known.lower() for known in it.names}]:
            return max(fitting, key=lambda it: (it.not_after, it.id)).id
    return OPERATOR if is_below else ""
