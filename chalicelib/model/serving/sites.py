"""Names and ports that tunnels serve, and which visitors they refuse. This file does no I/O."""

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

OPERATOR = "operator"  # used as the certificate id of the operator's certificate, which has no resource id


@dataclass(frozen=True)
class Site:
    """A host name that a tunnel serves, and the id of its certificate, "" if TLS ends upstream.

    If `refuses_challenges`, no certificate authority can validate the name. `refusals` are conditions on the visitor's
    address: a visitor is refused if one of them is true. If `basic_auth` is set, visitors must send a password that is
    stored in the reservation with the id `reservation`.
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
        """Return whether the tunnel or its reservation can refuse visitors."""
        return bool(self.refusals or self.basic_auth)


@dataclass(frozen=True)
class ServedAddress:
    """A reserved address. `proxy_protocol` is None if the record is malformed. `modules` are as they are stored."""

    proxy_protocol: bool | None
    modules: Mapping[str, Any] = field(default_factory=dict, hash=False)


def list_policies(reservation: ServedReservation | ServedAddress) -> list[str]:
    """Return the ids of the IP policies that a reservation has for its tunnels."""
    module = _decode_modules(reservation).get(ip_restriction.MODULE)
    return module.ip_policy_ids if module else []


def find_passwords(reservations: Iterable[ServedReservation]) -> tuple[str, BasicAuthRule | None]:
    """Return the id and password rule of the first reservation that requires a password, or ("", None)."""
    rules = ((reservation.id, _decode_modules(reservation).get(basic_auth.MODULE)) for reservation in reservations)
    return next(((id, rule) for id, rule in rules if rule), ("", None))


def find_refusals(
    tunnel: ServedTunnel | None,
    reservations: Iterable[ServedReservation | ServedAddress],
    policies: Mapping[str, Rules | None],
) -> tuple[Condition, ...]:
    """Return the conditions under which a tunnel and its reservations refuse a visitor.

    A malformed reservation, or one with a malformed or unknown module, refuses all visitors.
    """
    named = IpRestrictionModule(ip_policy_ids=[*tunnel.ip_policies]) if tunnel and tunnel.ip_policies else None
    conditions = [*ip_policies.find_refusals(named, policies)]
    for reservation in reservations:
        modules = _decode_modules(reservation)
        if modules.unenforced or not _is_readable(reservation):
            return ip_policies.REFUSE_ALL
        conditions += ip_policies.find_refusals(modules.get(ip_restriction.MODULE), policies)
    return ip_policies.REFUSE_ALL if ip_policies.has_too_many([tuple(conditions)]) else tuple(conditions)


def _is_readable(reservation: ServedReservation | ServedAddress) -> bool:
    if isinstance(reservation, ServedAddress):
        return reservation.proxy_protocol is not None
    return reservation.is_readable


def _decode_modules(reservation: ServedReservation | ServedAddress) -> Modules:
    kind = kinds.RESERVED_ADDRS if isinstance(reservation, ServedAddress) else kinds.RESERVED_DOMAINS
    return Modules.of(reservation.modules, kind)
