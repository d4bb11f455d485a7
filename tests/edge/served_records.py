"""Puts served values into the table of this process: the records that the edge reads as these values."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from hashlib import sha1
from itertools import count
from typing import Any, TypeAlias

from chalicelib import clock
from chalicelib.model.accounts import accounts
from chalicelib.model.accounts.accounts import Account, User
from chalicelib.model.audit import partitions
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.model.edges import edges
from chalicelib.model.edges.edges import Edge, HttpsEdge, Route
from chalicelib.model.edges.enforced.enforced_modules import Modules
from chalicelib.model.edges.ip_policies import IpPolicy, ServedPolicy
from chalicelib.model.edges.modules import basic_auth, webhook_verification
from chalicelib.model.edges.modules.basic_auth import BasicAuthModule, BasicAuthRule
from chalicelib.model.edges.modules.oauth import OAuthModule, StoredProvider
from chalicelib.model.edges.modules.webhook_verification import WebhookModule, WebhookRule
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.names import base_names, proofs
from chalicelib.model.names.reservations import ReservedAddr, ReservedDomain, ServedReservation
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.ssh.authorities import IssuedUserCertificate, SshAuthority
from chalicelib.model.ssh.credentials import SshCredential
from chalicelib.model.tls.tls_certificates import ClientAuthority, ServedCertificate, TlsCertificate
from chalicelib.model.tunnels import ends, tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel, ServedTunnel
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log, items, table, unique_keys, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey
from edge.link.authority import KeyPair
from edge.store.records import Grant

Part: TypeAlias = ServedBackend | ServedAuthority | ServedPolicy
Value: TypeAlias = ServedEdge | Part | ServedReservation
_FIELDS = ("hostports", "labels", "backends", "headers", "ca_pem", "action", "domain", "addr")
_MALFORMED: dict[str, Any] = dict.fromkeys(_FIELDS, 7)
_revisions = count(1)


def put(*values: Value) -> None:
    """Put values into the table, in the place of earlier ones with their ids. Each is one change of the log."""
    for value in values:
        _add_account(value.account)
        if isinstance(value, ServedEdge):
            _put_routes(value)
        _put(_item_of(value))


def put_unlisted(edge: ServedEdge) -> None:
    """Change an edge without its entry in the list of special names."""
    item = table.find(items.scope(edge.account, edge.kind.path), edge.id)
    assert item
    _put_routes(edge)
    item_writes = writes.rewrite(item, replace(_item_of(edge), changed=clock.seconds()))
    writes.commit([*item_writes, *change_log.entries(item_writes)])


def clear_log() -> None:
    """Remove all entries of the change log."""
    for shard in change_log.SHARDS:
        for item in table.read_all(shard):
            dynamodb.do(Write.delete(shard, item.id))


def remove(*values: Value) -> None:
    """Remove values from the table, if they are there."""
    for value in values:
        if isinstance(value, ServedEdge):
            _put_routes(replace(value, routes=()))
        item_key = items.scope(value.account, kinds.identify(value.id).path), value.id
        if item := table.find(*item_key):
            _commit(item, None, writes.remove(item))


def put_account(account: str, *, active: bool = True, only_reserved: bool = False) -> None:
    """Put an account into the table unless it has this state already."""
    body = Account(name=account, active=active, only_reserved=only_reserved).to_record()
    item = table.find(accounts.SCOPE, account)
    if item is None:
        dynamodb.do(partitions.include_edge(account))  # the edge acts for it
    if item is None or item.body != body:
        _put(Item(accounts.SCOPE, account, body))


def _add_account(account: str) -> None:
    if table.find(accounts.SCOPE, account) is None:
        put_account(account)


def put_address(account: str, name: str, address: ServedAddress) -> None:
    """Reserve an address, host:port, for an account."""
    _add_account(account)
    stored = ReservedAddr(addr=name, proxy_protocol=bool(address.proxy_protocol))
    body = _MALFORMED if address.proxy_protocol is None else stored.to_record()
    id = f"ra_{int(name.partition(':')[2]):027}"
    keys = stored.unique_keys(account, id)
    _put(Item(items.scope(account, kinds.RESERVED_ADDRS.path), id, body, {**address.modules}, unique_keys=keys))


def _item(account: str, kind: Kind, id: str, stored: Stored) -> Item:
    return Item(items.scope(account, kind.path), id, stored.pack(), unique_keys=stored.unique_keys(account, id))


def put_tunnel(tunnel: ServedTunnel) -> None:
    """Put a tunnel into the table and into the list of its gateway. It stays online while the gateway is live."""
    _add_account(tunnel.account)
    for item in _items_of_tunnel(tunnel):
        _put(item)


def put_tunnels(*tunnels: ServedTunnel) -> None:
    """Put new tunnels of one account into the table, twenty in each transaction."""
    _add_account(tunnels[0].account)
    for start in range(0, len(tunnels), 20):
        created = [item for tunnel in tunnels[start : start + 20] for item in _items_of_tunnel(tunnel)]
        item_writes = [write for item in created for write in writes.put(item)]
        writes.commit([*item_writes, *change_log.entries(item_writes)], created=created)


def remove_tunnels(*tunnels: ServedTunnel) -> None:
    """Remove tunnels from the table without events, twenty in each transaction."""
    for start in range(0, len(tunnels), 20):
        items_of_tunnels = [item for tunnel in tunnels[start : start + 20] for item in _items_of_tunnel(tunnel)]
        item_keys = [item.key for item in items_of_tunnels] + [
            (key.scope, unique_keys.ID) for item in items_of_tunnels for key in item.unique_keys
        ]
        deletions = [Write.delete(*item_key) for item_key in item_keys]
        dynamodb.transact([*deletions, *change_log.entries(deletions)])


def _items_of_tunnel(tunnel: ServedTunnel) -> tuple[Item, Item]:
    """Return the item of a tunnel, and its entry in the list of its gateway."""
    common: dict[str, Any] = {
        "tunnel_session": "ts_1",
        "region": "",
        "forwards_to": "192.0.2.9",
        "gateway": tunnel.gateway,
    }
    options: dict[str, Any] = {"proto": tunnel.proto, "proxy_protocol": tunnel.proxy_protocol}
    body: dict[str, Any] = {**common, "labels": {**tunnel.labels}}
    keys: tuple[UniqueKey, ...] = ()
    if tunnel.name:
        body = AgentTunnel(**common, **options, endpoint="ep_1", public_url=f"https://{tunnel.name}").to_record()
        of_key = {"account": tunnel.account, "id": tunnel.id, "gateway": tunnel.gateway}
        keys = (UniqueKey(base_names.KIND, tunnel.name, of_key),)
    entry = {"account": tunnel.account, "name": tunnel.name, "labels": {**tunnel.labels}, **options}
    own_item = Item(tunnels.scope(tunnel.account), tunnel.id, body, unique_keys=keys)
    return own_item, Item(ends.gateway_scope(tunnel.gateway), tunnel.id, entry)


def put_certificate(certificate: ServedCertificate, pair: KeyPair) -> None:
    """Put a certificate with its key into the table, as if the API had sealed the key."""
    _add_account(certificate.account)
    body = TlsCertificate(
        certificate_pem=pair.chain,
        subject_alternative_names={"dns_names": [*certificate.names]},
        not_before=clock.rfc3339(certificate.not_before),
        not_after=clock.rfc3339(certificate.not_after),
    ).pack()
    key = base64.b64decode("".join(pair.key.strip().splitlines()[1:-1]))
    sealed = {"private_key": vault.seal(key, vault.context(certificate.account, certificate.id))}
    scope = items.scope(certificate.account, kinds.TLS_CERTIFICATES.path)
    _put(Item(scope, certificate.id, body, sealed=sealed))


def remove_certificate(account: str, id: str) -> None:
    if item := table.find(items.scope(account, kinds.TLS_CERTIFICATES.path), id):
        _commit(item, None, writes.remove(item))


def put_grant(fingerprint: str, grant: Grant) -> None:
    """Put a credential with a public key into the table, and an owner."""
    _add_account(grant.account)
    owner = f"usr_{'0' * 27}"
    if not table.find(users := items.scope(grant.account, kinds.USERS.path), owner):
        _put(Item(users, owner, User(name="user").to_record()))
    body = SshCredential(public_key=fingerprint, owner_id=owner, acl=[*grant.acl]).to_record()
    of_key = {"account": grant.account, "id": grant.credential, "owner_id": owner, "acl": [*grant.acl]}
    key = UniqueKey("public_key", fingerprint, {**of_key, "active": True})
    _put(Item(items.scope(grant.account, kinds.SSH_CREDENTIALS.path), grant.credential, body, unique_keys=(key,)))


def put_user_certificate(account: str, id: str, authority: str, certificate: str) -> None:
    """Put a user certificate of a day and its authority into the table. Both are lines without a comment."""
    _add_account(account)
    signer = SshAuthority(public_key=authority, key_type="ed25519")
    of_authority = f"sshca_{int(sha1(authority.encode()).hexdigest(), 16) % 10**27:027}"
    keys = signer.unique_keys(account, of_authority)
    scope = items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path)
    _put(Item(scope, of_authority, signer.pack(), unique_keys=keys))
    end = clock.rfc3339(clock.now() + timedelta(days=1))
    record = IssuedUserCertificate(
        public_key=authority, ssh_certificate_authority_id=of_authority, valid_until=end, certificate=certificate
    )
    _put(Item(items.scope(account, kinds.SSH_USER_CERTIFICATES.path), id, record.pack()))


def remove_user_certificates(account: str) -> None:
    for item in table.read_all(items.scope(account, kinds.SSH_USER_CERTIFICATES.path)):
        _commit(item, None, writes.remove(item))


def remove_grant(grant: Grant) -> None:
    if item := table.find(items.scope(grant.account, kinds.SSH_CREDENTIALS.path), grant.credential):
        _commit(item, None, writes.remove(item))


def _put(item: Item) -> None:
    item = replace(item, changed=clock.seconds())
    stored = table.find(item.scope, item.id)
    if stored is None:
        _commit(None, item, writes.put(item))
    elif stored.malformed:
        _commit(stored, None, writes.remove(stored))
        _commit(None, item, writes.put(item))
    else:
        revision = item.revision if item.path.startswith("/edges/") else stored.revision + 1
        after = replace(item, revision=revision)
        _commit(stored, after, writes.rewrite(stored, after))


def _commit(before: Item | None, after: Item | None, item_writes: Sequence[Write]) -> None:
    """Write an item with all that its stored type adds, and with an entry in the change log."""
    of = after or before
    kind = kinds.identify_item(of) if of else None
    more = kind.stored_type.prepare(before, after, item_writes) if kind else ()
    all_writes = [*item_writes, *more]
    writes.commit([*all_writes, *change_log.entries(all_writes)], created=[after] if after else [])


def _item_of(value: Value) -> Item:
    body, keys, more = _record_of(value)
    scope = items.scope(value.account, kinds.identify(value.id).path)
    return replace(Item(scope, value.id, body, unique_keys=keys), **more)


def _record_of(value: Value) -> tuple[dict[str, Any], tuple[UniqueKey, ...], dict[str, Any]]:
    """Return the body, the unique keys and the other fields of an item."""
    match value:
        case ServedEdge():
            return _record_of_edge(value)
        case ServedReservation():
            return _record_of_reservation(value)
        case ServedPolicy(rules=None) | ServedBackend(value=None) | ServedAuthority(pem=""):
            return _MALFORMED, (), {}
        case ServedPolicy(rules=rules) if rules:
            texts = [*(f"allow {network}" for network in rules.allow), *(f"deny {network}" for network in rules.deny)]
            copies = {f"ippr_{number:027}": text for number, text in enumerate(texts)}
            return IpPolicy().to_record(), (), {"unseen": {"rules": copies}}
        case ServedBackend(value=stored) if stored:
            return stored.pack(), (), {}
        case ServedAuthority(pem=pem):
            return ClientAuthority(ca_pem=pem).pack(), (), {}
    raise AssertionError(value)


def _record_of_edge(edge: ServedEdge) -> tuple[dict[str, Any], tuple[UniqueKey, ...], dict[str, Any]]:
    stored = Edge(hostports=[*edge.hostports])
    if edge.kind is kinds.HTTPS_EDGES:
        keep = [*edge.keep_headers]
        stored = HttpsEdge(hostports=[*edge.hostports], terminate_at=edge.terminate_at, keep_headers=keep)
    body = _MALFORMED if edge.error else stored.to_record()
    more = {"modules": _modules_of(edge.modules, edge.account, edge.id), "revision": edge.revision}
    return body, stored.unique_keys(edge.account, edge.id), more


def _record_of_reservation(
    reservation: ServedReservation,
) -> tuple[dict[str, Any], tuple[UniqueKey, ...], dict[str, Any]]:
    proof: Mapping[str, Any] = {}
    if not base_names.is_below(reservation.domain):
        new_proof = proofs.begin(clock.seconds(), value=reservation.id, cname_target=reservation.id)
        proof = asdict(replace(new_proof, status="verified" if reservation.is_proved else "pending", next_at=2**40))
    stored = ReservedDomain(
        domain=reservation.domain,
        certificate_id=reservation.certificate_id,
        proxy_protocol=reservation.proxy_protocol,
        keep_headers=[*reservation.keep_headers],
        proof=proof,
    )
    body = stored.to_record() if reservation.is_readable else _MALFORMED
    return body, stored.unique_keys(reservation.account, reservation.id), {"modules": {**reservation.modules}}


def _put_routes(edge: ServedEdge) -> None:
    """Replace the routes of an edge. The change of the edge itself is what the log names."""
    scope = edges.routes_scope(items.scope(edge.account, edge.kind.path), edge.id)
    items_by_id = {route.id: _item_of_route(scope, edge, route) for route in edge.routes}
    stored = {item.id: item for item in table.read_all(scope)}
    for id in stored.keys() - items_by_id.keys():
        dynamodb.do(Write.delete(*stored[id].key))
    for id, item in items_by_id.items():
        before = stored.get(id)
        if before is None or (before.body, before.modules) != (item.body, item.modules):
            dynamodb.do(Write.put(item.to_record()))


def _item_of_route(scope: str, edge: ServedEdge, route: ServedRoute) -> Item:
    match_type: Any = route.match_type
    body = Route(match_type=match_type, match=route.match, edge_id=edge.id).to_record()
    modules = _modules_of(route.modules, edge.account, route.id)
    return Item(scope, route.id, body, modules, revision=next(_revisions))


def _modules_of(modules: Modules, account: str, resource: str) -> dict[str, Any]:
    """Return the records of enabled modules. Modules that are not enforced have no fields."""
    context = vault.context(account, resource)
    packed = {name: _stored_module(value, context).pack() for name, value in modules.values.items()}
    return {**packed, **dict.fromkeys(modules.unenforced)}


def _stored_module(value: Any, context: Mapping[str, str]) -> Stored:
    """Return the stored form of a module. A rule gets secrets that fit no visitor."""
    match value:
        case BasicAuthRule():
            sealed = vault.seal(b"{}", basic_auth.password_context(context))
            return BasicAuthModule(usernames=["user"], passwords=sealed)
        case WebhookRule(provider=provider):
            return WebhookModule(
                provider=provider, secret=vault.seal(b"secret", webhook_verification.webhook_context(context))
            )
        case SignInRule():
            return _oauth_of(value, context)
    assert isinstance(value, Stored), value
    return value


def _oauth_of(rule: SignInRule, context: Mapping[str, str]) -> OAuthModule:
    provider = StoredProvider(
        client_id=rule.client_id,
        client_secret=vault.seal(b"secret", context),
        scopes=[*rule.scopes],
        email_addresses=[*rule.email_addresses],
        email_domains=[*rule.email_domains],
        teams=[*rule.teams],
        organizations=[*rule.organizations],
    )
    return OAuthModule(
        provider={rule.provider: provider},
        options_passthrough=rule.options_passthrough,
        cookie_prefix=rule.cookie_prefix,
        inactivity_timeout=rule.inactivity_timeout,
        maximum_duration=rule.maximum_duration,
        auth_check_interval=rule.auth_check_interval,
    )
