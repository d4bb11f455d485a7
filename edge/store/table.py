"""Implements the edge's store with a DynamoDB table and a KMS key, which environment variables name."""

import functools
import os
from collections.abc import Sequence
from contextlib import suppress

from chalicelib import domains, ids
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import ip_policies
from chalicelib.model.names import base_names, reservations
from chalicelib.model.names.reservations import NotProved, ServedReservation
from chalicelib.model.tunnels import bindings, gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, ServedTunnel
from chalicelib.storage.client import aws
from chalicelib.storage.records import table
from chalicelib.storage.records.unique_keys import Taken
from edge.process.settings import SettingError, Settings
from edge.store import grants
from edge.store.records import (
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    PolicyUnknown,
    Throttled,
    TooManyTunnels,
    Unavailable,
)
from edge.store.threads import translate_errors


class Store:
    """Opens tunnels and checks rights, for gateways of a region.

    Every method blocks. Call it in a thread with `edge.store.threads`, which translates the errors of AWS.
    """

    def __init__(self, region: str, tunnel_domain: str) -> None:
        self._region, self._tunnel_domain = region, tunnel_domain

    def open(self, opening: Opening, *, most: int) -> ServedTunnel:
        """Store a new tunnel. The tunnel is online as long as its gateway is live.

        Raises TooManyTunnels if the account has `most` tunnels already.

        Raises NameTaken, NameBanned, NameOfEdge, NameNotReserved, NameNotProved, PolicyUnknown.
        """
        account, name = opening.grant.account, opening.name
        if opening.ip_policies and ip_policies.find_missing(account, opening.ip_policies):
            raise PolicyUnknown
        proof = self._find_proof(opening)
        if (
            name
            and not proof
            and accounts.requires_reserved_names(account)
            and not base_names.is_reserved(account, name)
        ):
            raise NameNotReserved
        stored = online_tunnels.end_lapsed(account)
        if len(stored) >= most and len(online_tunnels.keep_online(stored)) >= most:
            raise TooManyTunnels
        id = self._create_tunnel(opening, proof)
        try:
            if online_tunnels.exceed(account, most):  # other openings can pass the check above at the same time
                raise TooManyTunnels
        except (TooManyTunnels, aws.AwsError):
            with suppress(aws.AwsError):
                tunnels.close_tunnel(account, id)
            raise
        labels = dict(opening.labels)
        how = opening.proto, opening.proxy_protocol, opening.ip_policies
        return ServedTunnel(account, id, opening.gateway, name, 0, labels, *how)

    def _find_proof(self, opening: Opening) -> ServedReservation | None:
        """Return the proved reservation that permits the account to use a name outside TUNNEL_DOMAIN.

        Return None for names below TUNNEL_DOMAIN, which need no proof. Raises NameNotProved.
        """
        name = opening.name
        if not name or self._is_below_tunnel_domain(name):
            return None
        reservation = reservations.find_proving(name, self._tunnel_domain)
        if reservation is None or reservation.account != opening.grant.account:
            raise NameNotProved
        return reservation

    def _create_tunnel(self, opening: Opening, proof: ServedReservation | None) -> str:
        """Create the record of a tunnel, and return its id.

        If the account has proved that it owns the name, end another account's tunnel that still has this name.
        """
        account, name = opening.grant.account, opening.name
        checks = [reservations.require_proved(proof)] if proof else []
        try:
            return tunnels.open_tunnel(account, self._build_tunnel(opening), name=name, checks=checks)
        except tunnels.EdgeHasName:
            raise NameOfEdge from None
        except NotProved:
            raise NameNotProved from None
        except Taken:
            if proof and tunnels.close_other(account, name):
                return self._create_tunnel(opening, proof)
            raise (NameBanned if name_bans.is_banned(name) else NameTaken) from None

    def is_reserved(self, account: str, name: str) -> bool:
        """Return whether an account has reserved or proved a name or address."""
        return not self._is_below_tunnel_domain(name) or base_names.is_reserved(account, name)

    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        """Return whether the reservation of a name requires PROXY protocol headers. Raises NameUnreadable."""
        try:
            return reservations.uses_proxy_protocol(account, name, self._tunnel_domain)
        except reservations.UnreadableReservation:
            raise NameUnreadable from None

    def _is_below_tunnel_domain(self, name: str) -> bool:
        """Return whether a name is below TUNNEL_DOMAIN. True for all TCP addresses."""
        return domains.is_below(name.partition(":")[0], self._tunnel_domain)

    def _build_tunnel(self, opening: Opening) -> AgentTunnel | BackendTunnel:
        common = {
            "tunnel_session": opening.session,
            "region": self._region,
            "forwards_to": opening.forwards_to,
            "gateway": opening.gateway,
            "credential": opening.grant.credential,
            "address": opening.address,
            "client": opening.client,
        }
        if opening.labels:
            return BackendTunnel(**common, labels=dict(opening.labels))
        endpoint = ids.new(kinds.ENDPOINTS.prefix)
        return AgentTunnel(
            **common,
            endpoint=endpoint,
            proto=opening.proto,
            public_url=opening.url,
            proxy_protocol=opening.proxy_protocol,
            ip_policies=[*opening.ip_policies],
        )

    def find_unpermitted(self, tunnels: Sequence[tuple[ServedTunnel, Opening]]) -> frozenset[str]:
        """Return the ids of the tunnels to which their clients have lost the right.

        The client's credential does not permit the tunnel any more, or the account has lost the right to the name.
        """
        refresh = functools.cache(grants.refresh)
        with table.cache_reads():
            disallowed = bindings.find_disallowed([record for record, _ in tunnels], self._tunnel_domain)
            revoked = {record.id for record, opening in tunnels if not opening.is_permitted(refresh(opening.grant))}
        return disallowed | revoked


def connect(settings: Settings) -> Store:
    """Return the store. Raises Throttled, and SettingError if the table or the key cannot be used."""
    try:
        translate_errors(lambda: _check(settings))
    except Throttled:
        raise
    except Unavailable as error:
        raise SettingError(
            f"The store cannot be used ({error}): start 'make run' first, or set AWS_ENDPOINT_URL to another store."
        ) from None
    except base_names.OtherSettingsError as error:
        raise SettingError(str(error)) from None
    return Store(settings.region, settings.tunnel_domain)


def _check(settings: Settings) -> None:
    gateways.list_gateways()
    base_names.check_given_settings(settings.tunnel_domain, os.environ.get("TCP_PORTS", "").strip())
