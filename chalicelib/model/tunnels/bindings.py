"""Checks whether online tunnels may still have their names and ports.

A tunnel loses its name if an edge uses the name, or if the account has not proved the domain. It also loses a name that
is not reserved if the operator permits the account only reserved names.
"""

from collections.abc import Sequence

from chalicelib import domains
from chalicelib.model.accounts import accounts
from chalicelib.model.names import base_names, proofs, reservations
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import table, unique_keys


def find_disallowed(served: Sequence[ServedTunnel], tunnel_domain: str) -> frozenset[str]:
    """Return the ids of tunnels that may no longer have their names or ports. Raises aws.Unavailable."""
    named = [tunnel for tunnel in served if tunnel.name]
    listening = table.read_records(_listener_key(tunnel) for tunnel in named)
    below = [tunnel for tunnel in named if tunnel.proto == "tcp" or domains.is_below(tunnel.name, tunnel_domain)]
    limited = accounts.find_limited_to_reserved(tunnel.account for tunnel in below)
    unreserved = {
        tunnel.id
        for tunnel in below
        if tunnel.account in limited and not base_names.is_reserved(tunnel.account, tunnel.name)
    }
    unproved = _find_unproved([tunnel for tunnel in named if tunnel not in below], tunnel_domain)
    return frozenset({tunnel.id for tunnel in named if _listener_key(tunnel) in listening} | unproved | unreserved)


def _listener_key(tunnel: ServedTunnel) -> tuple[str, str]:
    """Return the primary key of the record that exists while an edge of the account has the tunnel's name.

    The record is the unique key of the edge's hostport.
    """
    return base_names.listening_key(tunnel.account, tunnels.hostport_of(tunnel.name)).scope, unique_keys.ID


def _find_unproved(elsewhere: Sequence[ServedTunnel], tunnel_domain: str) -> set[str]:
    """Return the ids of tunnels with names that their accounts have not proved."""
    stored_reservations = reservations.read_reservations_for("", {tunnel.name for tunnel in elsewhere}, tunnel_domain)
    proved = {reservation.domain: reservation for reservation in stored_reservations if reservation.is_proved}

    def owner(reservation: ServedReservation | None) -> str:
        return reservation.account if reservation else ""

    return {tunnel.id for tunnel in elsewhere if owner(proofs.find_proving(tunnel.name, proved)) != tunnel.account}
