"""The records that gateways use: grants, tunnels, usage, blocks and bans."""

import functools
from collections.abc import Sequence
from contextlib import suppress

from chalicelib import domains, ids
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds, records
from chalicelib.model.edges import ip_policies
from chalicelib.model.names import bans, base_names, reservations
from chalicelib.model.names.reservations import NotProved, ServedReservation
from chalicelib.model.ssh import credentials, revoked
from chalicelib.model.ssh.authorities import IssuedUserCertificate
from chalicelib.model.tunnels import bindings, blocks, gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels import usage as usages
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, ServedTunnel, Traffic
from chalicelib.storage.client import aws
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    PolicyUnknown,
    Successor,
    TooManyTunnels,
)


def _grant_certificate(certificate: Item) -> Grant:
    bind = records.decode(IssuedUserCertificate, certificate).bind
    return Grant(certificate.account, certificate.id, tuple(bind or ()))


class GatewayRecords:
    """The methods of the store that only gateways use."""

    def __init__(self, region: str, tunnel_domain: str) -> None:
        self._region, self._tunnel_domain = region, tunnel_domain

    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        """Return the grant of the active credential with this public key, or None."""
        credential = credentials.find_by_fingerprint(fingerprint)
        return Grant(credential.account, credential.id, tuple(credential.acl)) if credential else None

    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        """Return the grant of an active user certificate, or None. `authority` is the fingerprint of the signing CA."""
        certificate = revoked.find_certificate(authority, key_id)
        return _grant_certificate(certificate) if certificate else None

    def refresh_grant(self, grant: Grant) -> Grant | None:
        """Return the current grant of a credential. Return None if it is deleted or inactive."""
        if kinds.identify(grant.credential) is kinds.SSH_USER_CERTIFICATES:
            certificate = revoked.read_certificate(grant.account, grant.credential)
            return _grant_certificate(certificate) if certificate else None
        credential = credentials.read(grant.account, grant.credential)
        return Grant(credential.account, credential.id, tuple(credential.acl)) if credential else None

    def open(self, opening: Opening, *, most: int) -> ServedTunnel:
        """Store a new tunnel. It is online as long as its gateway is live.

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
            if online_tunnels.exceed(account, most):  # other gateways opened tunnels of the account at the same time
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

    def find_free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return an address that the account can use now without a reservation, chosen at random, or None."""
        return base_names.find_free_address(account, addresses)

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
        """Return the ids of the tunnels to which the client has lost the right.

        Either the credential does not permit the tunnel any more, or the account has lost the right to the name.
        """
        refresh = functools.cache(self.refresh_grant)
        with table.cache_reads():
            disallowed = bindings.find_disallowed([record for record, _ in tunnels], self._tunnel_domain)
            revoked = {record.id for record, opening in tunnels if not opening.is_permitted(refresh(opening.grant))}
        return disallowed | revoked

    def find_missing(self, tunnels: Sequence[ServedTunnel]) -> frozenset[str]:
        """Return the ids of tunnels without a record."""
        return online_tunnels.find_missing(tunnels)

    def close(self, tunnel: ServedTunnel, usage: Traffic) -> None:
        """End a tunnel and free its name. The audit event contains the usage. A tunnel without a record is ignored."""
        tunnels.close_tunnel(tunnel.account, tunnel.id, usage=usage)

    def find_successor(self, account: str, id: str) -> Successor | None:
        """Return the account's tunnel with an id, and its gateway. Return None if the tunnel is not online."""
        if (found := online_tunnels.read_with_credential(account, id)) is None:
            return None
        tunnel, credential = found
        gateway = gateways.read(tunnel.gateway) if tunnel.gateway else None
        return Successor(tunnel, credential, gateway) if gateway else None

    def write_usage(self, account: str, hour: str, gateway: str, usage: Traffic) -> None:
        """Store an account's usage at a gateway in an hour, such as "2026-11-22T14". Replaces an earlier value."""
        usages.write(account, hour, gateway, usage)

    def record_refusal(self, tunnel: ServedTunnel, reason: str) -> None:
        """Record why an edge host does not serve a tunnel, or "" if it does. This adds an entry to the change log."""
        tunnels.record_refusal(tunnel, reason)

    def read_refusal(self, tunnel: ServedTunnel) -> str:
        """Return why an edge host does not serve a tunnel, or ""."""
        return tunnels.read_refusal(tunnel)

    def list_blocked_networks(self) -> list[str]:
        """Return the networks that the operator has blocked."""
        return [network for network, _ in blocks.list_networks()]

    def list_banned_patterns(self) -> list[str]:
        """Return the patterns of the operator's bans. Tunnels cannot have a name that matches one."""
        return bans.list_patterns()

    def list_banned_names(self) -> list[str]:
        """Return the host names and the name patterns that the operator has banned, but no addresses (host:port)."""
        return [*(name for name in name_bans.list_banned() if ":" not in name), *bans.list_patterns()]

    def announce_gateway(self, gateway: Gateway, *, lease: int) -> bool:
        """Register a new gateway, which is live for `lease` seconds. Return False if its id was used before."""
        return gateways.announce(gateway, lease=lease)

    def renew_gateway(self, gateway: str, *, lease: int) -> bool:
        """Renew the lease of a live gateway. Return False if the lease has ended, or the gateway is marked as ended."""
        return gateways.renew(gateway, lease=lease)

    def change_gateway(self, gateway: Gateway) -> bool:
        """Store at which port Envoy reaches a live gateway, and whether the gateway drains.

        Return False if the gateway is not live.
        """
        return gateways.change(gateway)

    def withdraw_gateway(self, gateway: str) -> None:
        """Mark the gateway of this process as ended. Its record stays until its last tunnel has ended."""
        gateways.leave(gateway)
        if not online_tunnels.read_tunnels_of_gateway(gateway):
            gateways.remove(gateway)
