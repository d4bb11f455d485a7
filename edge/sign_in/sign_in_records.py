"""Reads, caches and writes the stored records of the sign-in service.

Functions of `chalicelib` block, so they run in threads. All methods raise aws.Unavailable if the store does not answer.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from botocore.exceptions import ClientError

from chalicelib.model.base import kinds
from chalicelib.model.edges import application_errors, edges
from chalicelib.model.edges.modules import oauth
from chalicelib.model.edges.modules.oauth import OAuthModule
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in import managed_apps, sessions, signing_keys
from chalicelib.model.sign_in.managed_apps import ManagedApp
from chalicelib.model.sign_in.sessions import Session
from chalicelib.model.sign_in.signing_keys import KeyPair
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from edge.sign_in.provider.provider_client import Application, Tokens
from edge.sign_in.session import keys
from edge.sign_in.session.keys import PrivateKeys
from edge.sign_in.session.tokens import SigningKey

REFRESH = 5.0  # seconds between reads of keys and managed OAuth applications
_MAX_RULES = 10_000
_REPORT_PAUSE = 60.0  # seconds until the same error of an OAuth application is stored again
P = ParamSpec("P")
T = TypeVar("T")


class NotReady(Exception):
    """No signing key has been read yet, or the managed OAuth application of a rule does not exist."""


class SecretUnreadable(Exception):
    """The client secret of an OAuth application cannot be decrypted."""


@dataclass(frozen=True)
class RouteOfHost:
    """A route of an edge: the paths that it matches, and its OAuth rule, or None."""

    match_type: str
    match: str
    rule: SignInRule | None


class SignInRecords:
    """The stored records that the sign-in service uses.

    `refresh` must be called every REFRESH seconds, to read changed keys and managed OAuth applications.
    """

    def __init__(self) -> None:
        self._rules: OrderedDict[str, tuple[SignInRule, OAuthModule]] = OrderedDict()
        # the last stored error of each audience, and the monotonic time at which it was stored
        self._reported: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._apps: dict[str, ManagedApp] = {}
        self._pairs: list[KeyPair] = []
        self._private: dict[str, PrivateKeys] = {}

    async def refresh(self) -> None:
        """Read the service's private keys and the managed OAuth applications.

        If it is time for the next keys, create them. Raises vault.Unreadable.
        """
        self._apps = await _run_in_thread(managed_apps.read_all)
        self._pairs, self._private = await _run_in_thread(_refresh_keys)

    async def rule(self, account: str, edge: str, route: str, audience: str) -> SignInRule | None:
        """Return the OAuth rule of a route. Return None if OAuth is off for the route.

        Rules are cached by audience, which identifies a route and the version of its OAuth module.
        """
        if entry := self._rules.get(audience):
            self._rules.move_to_end(audience)
            return entry[0]
        return await self.current_rule(account, edge, route)

    async def current_rule(self, account: str, edge: str, route: str) -> SignInRule | None:
        """Read the OAuth rule of a route from the store. Return None if OAuth is off for the route."""
        entry = await _run_in_thread(_read_rule, account, edge, route)
        return self._remember(entry) if entry else None

    async def routes(self, account: str, edge: str) -> list[RouteOfHost]:
        """Return the routes of an edge, the most specific first."""
        return await _run_in_thread(_read_routes, account, edge)

    def client_id(self, rule: SignInRule) -> str:
        """Return the client id of the OAuth application that a rule uses.

        Return "" if the rule uses a managed application that does not exist.
        """
        if rule.client_id:
            return rule.client_id
        managed = self._apps.get(rule.provider)
        return managed.client_id if managed else ""

    async def application(self, rule: SignInRule) -> Application | None:
        """Return the OAuth application of a rule, with its decrypted client secret.

        Return None if the application does not exist. If its secret cannot be decrypted, store that for the status of
        the edge, and raise SecretUnreadable.
        """
        try:
            return await self._application(rule)
        except (ClientError, aws.Misconfigured):
            await self.report_application(rule, "secret")
            raise SecretUnreadable from None

    async def report_application(self, rule: SignInRule, error: str = "") -> None:
        """Store why the OAuth application of a rule cannot be used. Without `error`, remove the stored error.

        The same result is stored at most once a minute.
        """
        now, (stored_error, at) = time.monotonic(), self._reported.get(rule.audience, (None, 0.0))
        if stored_error == error and now < at + _REPORT_PAUSE:
            return
        self._reported[rule.audience] = error, now
        _limit(self._reported)
        with suppress(aws.AwsError):  # a failure of the store does not change the visitor's response
            if error:
                await _run_in_thread(application_errors.write, rule, error)
            else:
                await _run_in_thread(application_errors.remove, rule)

    async def _application(self, rule: SignInRule) -> Application | None:
        if not rule.client_id:
            managed = self._apps.get(rule.provider)
            return Application(managed.client_id, await _run_in_thread(managed.open_secret)) if managed else None
        entry = self._rules.get(rule.audience)
        module = entry[1] if entry else None
        provider = module.provider[rule.provider] if module else None
        if provider is None:
            return None
        context = vault.context(rule.account, rule.route)
        return Application(rule.client_id, await _run_in_thread(provider.open_secret, context))

    def signing_key(self) -> SigningKey:
        """Return the key that signs new session tokens. Raises NotReady before the first `refresh`."""
        pair = signing_keys.choose(self._pairs, int(time.time()))
        if pair is None:
            raise NotReady("no key")
        return SigningKey(pair.kid, self._private[pair.kid].private)

    def state_keys(self) -> dict[str, bytes]:
        """Return the keys that encrypt state parameters, by id. Raises NotReady before the first `refresh`."""
        if not self._private:
            raise NotReady("no key")
        return {kid: private.state_key for kid, private in self._private.items()}

    async def session(self, id: str) -> Session | None:
        """Read the session with an id. Return None if there is none."""
        return await _run_in_thread(sessions.read, id)

    async def start_session(self, id: str, session: Session, tokens: Tokens, rule: SignInRule) -> None:
        """Store a new session with the provider's tokens, which are encrypted."""
        full_session = await _with_tokens(session, tokens)
        await _run_in_thread(sessions.write, id, full_session, until=session.signed_in_at + rule.max_session)

    async def renew_session(self, id: str, session: Session, tokens: Tokens, before: Session) -> bool:
        """Replace a session after a recheck of its user.

        Return False if the session has ended, or if it is not `before` any more, because another check has replaced it.
        """
        full_session = await _with_tokens(session, tokens)
        return await _run_in_thread(sessions.replace, id, full_session, before)

    async def tokens(self, session: Session) -> Tokens:
        """Decrypt the provider's tokens in a session. Raises vault.Unreadable."""
        return await _run_in_thread(
            vault.unseal_readable, session.tokens, sessions.context(session.account), Tokens.parse
        )

    async def begin_check(self, id: str, now: float, *, lasting: float) -> bool:
        """Reserve the recheck of a session for this process, for `lasting` seconds.

        Return False if another process has reserved it, if it is postponed, or if the session has ended.
        """
        return await _run_in_thread(sessions.begin_check, id, int(now), until=int(now + lasting))

    async def delay_check(self, id: str, now: float) -> None:
        """Postpone the next check of a session by one second, after a failed check."""
        await _run_in_thread(sessions.delay_check, id, until=int(now) + 1)

    async def record_seen(self, id: str, now: float) -> None:
        """Store that a session was used at the time `now`."""
        await _run_in_thread(sessions.record_seen, id, int(now))

    async def end_session(self, id: str) -> None:
        """Delete a session."""
        await _run_in_thread(sessions.end, id)

    def _remember(self, entry: tuple[SignInRule, OAuthModule]) -> SignInRule:
        self._rules[entry[0].audience] = entry
        _limit(self._rules)
        return entry[0]


def _limit(entries: OrderedDict[str, T]) -> None:
    """Remove the oldest entries of a cache until it has at most `_MAX_RULES`."""
    while len(entries) > _MAX_RULES:
        entries.popitem(last=False)


async def _run_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    return await asyncio.to_thread(lambda: function(*arguments, **named))


async def _with_tokens(session: Session, tokens: Tokens) -> Session:
    """Return a session that contains the provider's tokens in encrypted form."""
    sealed = await _run_in_thread(vault.seal, tokens.to_bytes(), sessions.context(session.account))
    return replace(session, tokens=sealed)


def _refresh_keys() -> tuple[list[KeyPair], dict[str, PrivateKeys]]:
    now = int(time.time())
    pairs = signing_keys.read()
    if start := signing_keys.next_start(pairs, now):
        keys.create(start)
        pairs = signing_keys.read()
    pairs = signing_keys.list_published(pairs, now)
    return pairs, {pair.kid: keys.unseal(pair) for pair in pairs}


def _read_rule(account: str, edge: str, route: str) -> tuple[SignInRule, OAuthModule] | None:
    scope = edges.routes_scope(items.scope(account, kinds.HTTPS_EDGES.path), edge)
    item = table.find(scope, route)
    return _rule_of(account, edge, item) if item else None


def _rule_of(account: str, edge: str, route: Item) -> tuple[SignInRule, OAuthModule] | None:
    try:
        module = OAuthModule.of(route.modules["oauth"])
    except (KeyError, MalformedRecord):
        return None
    rule = oauth.make_rule(module) if module.enabled else None
    return (rule.of_route(account, edge, route.id), module) if rule else None


def _read_routes(account: str, edge: str) -> list[RouteOfHost]:
    scope = items.scope(account, kinds.HTTPS_EDGES.path)
    route_items = edges.list_routes(edges.routes_scope(scope, edge))
    item = table.find_any(scope, edge)
    routes = [_route(account, edge, route) for route in (edges.complete_routes(item, route_items) if item else ())]
    return sorted(routes, key=lambda route: (route.match_type != "exact_path", -len(route.match)))


def _route(account: str, edge: str, item: Item) -> RouteOfHost:
    entry = _rule_of(account, edge, item)
    return RouteOfHost(str(item.body.get("match_type")), str(item.body.get("match")), entry[0] if entry else None)
