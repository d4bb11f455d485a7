"""The records of the API as the edge uses them: the table and the vault that the environment names."""

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from chalicelib import clock, ids
from chalicelib.model import gateways, kinds, tls_certificates, tunnels
from chalicelib.model.gateways import Gateway as Announced
from chalicelib.model.ssh import credentials, revoked
from chalicelib.model.tls_certificates import TlsCertificate
from chalicelib.model.tunnels import AgentTunnel, BackendTunnel, Carried
from chalicelib.storage import aws, items, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken
from edge import hop_authority
from edge.authority import Authority, KeyPair
from edge.records import (
    Certificate,
    Gateway,
    Grant,
    Leased,
    NameBanned,
    NameTaken,
    Opening,
    Served,
    Site,
    TooManyTunnels,
    Unavailable,
)
from edge.settings import SettingError, Settings
from edge.uploaded import Uploaded

P = ParamSpec("P")
R = TypeVar("R")


def connect(settings: Settings) -> "Records":
    """Return the store; raise SettingError when it cannot be used."""
    try:
        gateways.up()
    except aws.AwsError as error:
        raise SettingError(
            f"The store cannot be used ({error.code}): start make run first, or name another with AWS_ENDPOINT_URL."
        ) from None
    return Records(settings)


def _translated(ask: Callable[P, R]) -> Callable[P, R]:
    """Return the same, raising Unavailable where the store cannot be used."""

    @wraps(ask)
    def asked(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return ask(*arguments, **named)
        except aws.AwsError as error:
            raise Unavailable(error.code) from None

    return asked


@dataclass(frozen=True)
class _Carried:
    """The sites that a gateway carries, as of a revision of its record, and until when that holds if none follows."""

    revision: int
    until: int
    sites: tuple[Site, ...]


class Records:
    """Implements edge.records.Store; what control reads again and again is kept until it may have changed."""

    def __init__(self, settings: Settings) -> None:
        self._region = settings.region
        self._lease = settings.limits.lease
        self._here: Announced | None = None
        self._carried: dict[str, _Carried] = {}
        self._uploaded = Uploaded(self._certificates)

    # For both

    @_translated
    def hop_authority(self) -> Authority:
        return hop_authority.read_or_make()

    # For the gateway

    @_translated
    def grant_of_key(self, fingerprint: str) -> Grant | None:
        found = credentials.find_by_fingerprint(fingerprint)
        return Grant(found.account, found.id, tuple(found.acl)) if found else None

    @_translated
    def grant_of_certificate(self, authority: str, key_id: str) -> Grant | None:
        found = revoked.find_certificate(authority, key_id)
        return Grant(found.account, found.id, ()) if found else None

    @_translated
    def grant_again(self, grant: Grant) -> Grant | None:
        if kinds.of(grant.credential) is kinds.SSH_USER_CERTIFICATES:
            return grant if revoked.read_certificate(grant.account, grant.credential) else None
        found = credentials.read(grant.account, grant.credential)
        return Grant(found.account, found.id, tuple(found.acl)) if found else None

    @_translated
    def open(self, opening: Opening, *, lease: int, most: int) -> Leased:
        account, name = opening.grant.account, opening.name
        if len(tunnels.online(account)) >= most:
            raise TooManyTunnels
        try:
            id = tunnels.open_tunnel(account, self._tunnel(opening), lease=lease, name=name)
        except Taken:
            raise (NameBanned if tunnels.is_banned(name) else NameTaken) from None
        try:
            if len(tunnels.online(account)) > most:  # others were opened at the same moment
                raise TooManyTunnels
        except (TooManyTunnels, aws.AwsError):
            with suppress(aws.AwsError):
                tunnels.close_tunnel(account, id, gateway=opening.gateway)
            raise
        with suppress(aws.AwsError):  # the next announcement has control look, too
            self._changed()
        return Leased(id, account, name, opening.gateway)

    def _tunnel(self, opening: Opening) -> AgentTunnel | BackendTunnel:
        common = {
            "tunnel_session": opening.session,
            "region": self._region,
            "forwards_to": opening.forwards_to,
            "gateway": opening.gateway,
            "credential": opening.grant.credential,
        }
        if opening.labels:
            return BackendTunnel(**common, labels=dict(opening.labels))
        endpoint = ids.new(kinds.ENDPOINTS.prefix)
        return AgentTunnel(**common, endpoint=endpoint, proto="https", public_url=opening.url)

    @_translated
    def renew(self, leased: Sequence[Leased], *, lease: int) -> frozenset[str]:
        return tunnels.renew_leases([Carried(it.account, it.id, it.gateway, it.name, 0) for it in leased], lease=lease)

    @_translated
    def close(self, tunnel: Leased) -> None:
        tunnels.close_tunnel(tunnel.account, tunnel.id, gateway=tunnel.gateway)
        self._changed()

    @_translated
    def announce(self, gateway: Gateway, *, lease: int) -> None:
        self._here, self._lease = Announced(gateway.id, gateway.host, gateway.port), lease
        self._changed()

    def _changed(self) -> None:
        """Have control look at what this gateway carries."""
        if self._here:
            gateways.announce(self._here, lease=self._lease)

    @_translated
    def withdraw(self, gateway: str) -> None:
        self._here = None
        gateways.withdraw(gateway)

    # For control

    @_translated
    def served(self) -> Served:
        up = gateways.up()
        self._carried = {it.id: self._carried_by(it.id, revision) for it, revision in up}
        found = sorted((site for it in self._carried.values() for site in it.sites), key=lambda site: site.tunnel)
        sites = tuple({site.name: site for site in found}.values())  # the newest, where a name was taken over
        return Served(tuple(Gateway(it.id, it.host, it.port) for it, _ in up), *self._uploaded.of(sites))

    def _carried_by(self, gateway: str, revision: int) -> _Carried:
        known = self._carried.get(gateway)
        if known and known.revision == revision and clock.seconds() < known.until:
            return known
        found = tunnels.carried_by(gateway)
        sites = tuple(Site(it.name, it.id, it.account, gateway) for it in found if it.name)
        return _Carried(revision, min((it.expires for it in found), default=clock.seconds() + 3600), sites)

    @_translated
    def _certificates(self, account: str) -> tuple[Certificate, ...]:
        found = table.newest(items.scope(account, kinds.TLS_CERTIFICATES.path))
        return tuple(map(_certificate, found))

    @_translated
    def key_pair(self, account: str, certificate: str) -> KeyPair | None:
        item = table.read(items.scope(account, kinds.TLS_CERTIFICATES.path), certificate)
        if item is None:
            return None
        lines = base64.encodebytes(tls_certificates.private_key(item)).decode()
        return KeyPair(
            TlsCertificate.of(item.body).certificate_pem,
            f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n",
        )


def _certificate(item: Item) -> Certificate:
    found = TlsCertificate.of(item.body)
    names = tuple(found.subject_alternative_names["dns_names"])
    start, end = (int(clock.parse(moment).timestamp()) for moment in (found.not_before, found.not_after))
    return Certificate(item.id, item.account, names, start, end)
