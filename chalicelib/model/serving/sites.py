"""Names and ports that tunnels serve, and whom they and their reservations keep out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.base import kinds
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.enforced.enforced_modules import Modules
from chalicelib.model.edges.ip_policies import Rules
from chalicelib.model.edges.modules import basic_auth, ip_restriction
from chalicelib.model.edges.modules.basic_auth import BasicAuthRule
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels.tunnels import ServedTunnel

OPERATOR = "operator"  # in place of a certificate id: the operator's certificate, also shown for unknown names


@dataclass(frozen=True)
class Site:
    """A host name that a tunnel serves, and the id of its certificate, "" if TLS ends upstream.

    With `refuses_challenges`, no client can validate the name at a certificate authority. Each condition of `refusals`
    refuses visitors by their address. With `basic_auth`, they must have a password of the reservation with the id
    `reservation`.
    """

    name: str
    tunnel: ServedTunnel
    certificate: str
    keep_headers: tuple[str, ...] = ()
    refuses_challenges: bool = False
    refusals: tuple[Condition, ...] = ()
    reservation: str = ""
    basic_auth: BasicAuthRule | None = None

    @property
    def restricts_visitors(self) -> bool:
        """Return whether the tunnel or its reservation keeps some visitors out."""
        return bool(self.refusals or self.basic_auth)


@dataclass(frozen=True)
class ServedAddress:
    """A reserved address. `proxy_protocol` is None if its record is malformed. `modules` are undecoded."""

    proxy_protocol: bool | None
    modules: Mapping[str, Any] = field(default_factory=dict, hash=False)


def list_policies(reservation: ServedReservation | ServedAddress) -> list[str]:
    """Return the ids of the IP policies that decide about visitors of a reservation's tunnels."""
    module = _decode_modules(reservation).get(ip_restriction.MODULE)
    return module.ip_policy_ids if module else []


def find_passwords(reservation: ServedReservation | None) -> BasicAuthRule | None:
    """Return the passwords that visitors of a reservation's tunnels must have, or None."""
    return _decode_modules(reservation).get(basic_auth.MODULE) if reservation else None


def find_refusals(
    tunnel: ServedTunnel | None,
    reservations: Iterable[ServedReservation | ServedAddress],
    policies: Mapping[str, Rules | None],
) -> tuple[Condition, ...]:
    """Return the conditions under which a tunnel and its reservations refuse visitors of the tunnel.

    A malformed reservation, or one with a module that is malformed or unknown, refuses all.
    """
    named = IpRestrictionModule(ip_policy_ids=[*tunnel.ip_policies]) if tunnel and tunnel.ip_policies else None
    found = [*ip_policies.find_refusals(named, policies)]
    for reservation in reservations:
        modules = _decode_modules(reservation)
        if modules.unenforced or not _is_readable(reservation):
            return ip_policies.REFUSE_ALL
        found += ip_policies.find_refusals(modules.get(ip_restriction.MODULE), policies)
    return ip_policies.REFUSE_ALL if ip_policies.has_too_many([tuple(found)]) else tuple(found)


def _is_readable(reservation: ServedReservation | ServedAddress) -> bool:
    if isinstance(reservation, ServedAddress):
        return reservation.proxy_protocol is not None
    return reservation.is_readable


def _decode_modules(reservation: ServedReservation | ServedAddress) -> Modules:
    kind = kinds.RESERVED_ADDRS if isinstance(reservation, ServedAddress) else kinds.RESERVED_DOMAINS
    return Modules.of(reservation.modules, kind)
