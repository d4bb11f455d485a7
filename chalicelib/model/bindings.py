"""The names and ports that tunnels may have: by an account's limit, by proof, and unless an edge listens there."""

from collections.abc import Sequence

from chalicelib import domains
from chalicelib.model import accounts, names, proofs, reservations, tunnels
from chalicelib.model.reservations import ServedReservation
from chalicelib.model.tunnels import ServedTunnel
from chalicelib.storage import table, unique_keys


def find_disallowed(carried: Sequence[ServedTunnel], tunnel_domain: str) -> frozenset[str]:
    """Return the ids of tunnels that may not keep their names or ports. Raises aws.Unavailable."""
    named = [it for it in carried if it.name]
    listening = table.records(_listener_key(it) for it in named)
    below = [it for it in named if it.proto == "tcp" or domains.is_below(it.name, tunnel_domain)]
    limited = accounts.find_limited_to_reserved(it.account for it in below)
    unreserved = {it.id for it in below if it.account in limited and not names.is_reserved(it.account, it.name)}
    unproved = _find_unproved([it for it in named if it not in below], tunnel_domain)
    return frozenset({it.id for it in named if _listener_key(it) in listening} | unproved | unreserved)


def _listener_key(tunnel: ServedTunnel) -> tuple[str, str]:
    """Return the place of the record that is there while an edge of the account listens on a tunnel's name."""
    return names.listening_key(tunnel.account, tunnels.hostport_of(tunnel.name)).scope, unique_keys.ID


def _find_unproved(elsewhere: Sequence[ServedTunnel], tunnel_domain: str) -> set[str]:
    """Return the ids of tunnels whose names another account has proved, or nobody."""
    found = reservations.reservations_for("", {it.name for it in elsewhere}, tunnel_domain)
    proved = {held.domain: held for held in found if held.is_proved}

    def owner(held: ServedReservation | None) -> str:
        return held.account if held else ""

    return {it.id for it in elsewhere if owner(proofs.find_proving(it.name, proved)) != it.account}
