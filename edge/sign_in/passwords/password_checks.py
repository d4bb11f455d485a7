"""Decides whether Envoy may forward requests to routes and tunnels with passwords."""

import asyncio
import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from chalicelib.crypto import passwords
from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.modules.basic_auth import BasicAuthModule
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, table
from chalicelib.storage.records.decoding import MalformedRecord
from edge.process import log
from edge.sign_in.passwords import basic_credentials
from edge.sign_in.passwords.basic_credentials import BasicCredentials
from edge.sign_in.passwords.guess_limits import GuessLimits
from edge.sign_in.secret_reports import SecretReports

K = TypeVar("K")
V = TypeVar("V")
_MAX_MODULES = 10_000
_MAX_PASSED = 10_000  # the most credentials that are remembered as right
_AT_ONCE = 2  # the most verifications at the same time, because scrypt uses a core for some milliseconds
_MAX_WAITING = 16  # the most passwords for one route or tunnel that wait to be verified
_NOBODY = passwords.make_digest("")


@dataclass(frozen=True)
class PasswordRequest:
    """A visitor's request to a route or tunnel with passwords.

    `account`, `edge`, `owner` and `digest` come from Envoy's configuration. `owner` is the id of the object that has
    the passwords: a route of `edge`, or a tunnel's reserved domain, with "" as `edge`. `digest` identifies the version
    of the password module.
    """

    account: str
    edge: str
    owner: str
    digest: str
    address: str
    authorization: str


@dataclass(frozen=True)
class PasswordAnswer:
    """The answer to a request: an HTTP status, or 200 if Envoy must forward the request.

    `retry_after` is in seconds. `is_current` is true if Envoy's configuration has the same version of the password
    module as the store.
    """

    status: int
    retry_after: int = 0
    is_current: bool = False


class PasswordChecks:
    """Verifies passwords with the `basic_auth` modules of routes and reservations. Caches modules by digest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._key = GuessLimits(clock), os.urandom(32)
        self._reports = SecretReports("basic_auth", clock)
        self._modules: OrderedDict[tuple[str, str], BasicAuthModule] = OrderedDict()
        self._passed: OrderedDict[bytes, None] = OrderedDict()  # keyed digests of credentials that were right
        self._running: dict[bytes, asyncio.Task[PasswordAnswer]] = {}
        self._waiting: dict[str, int] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE, "passwords")

    async def check(self, request: PasswordRequest) -> PasswordAnswer:
        """Return the answer to a request. If the password cannot be verified, the request is not forwarded."""
        credentials = basic_credentials.parse(request.authorization)
        if credentials is None:
            return PasswordAnswer(401)
        if pause := self._limits.pause(request.owner, request.address):
            return PasswordAnswer(429, pause)
        key = self._key_of(request, credentials)
        if key not in self._running:  # a page's many requests have the same password, so they share one verification
            self._limits.take(request.owner, request.address)
            self._running[key] = asyncio.create_task(self._check(request, credentials, key))
            self._running[key].add_done_callback(lambda _: self._running.pop(key))
        return await asyncio.shield(self._running[key])

    async def _check(self, request: PasswordRequest, credentials: BasicCredentials, key: bytes) -> PasswordAnswer:
        answer = PasswordAnswer(503)
        try:
            answer = await self._verify(request, credentials, key)
        except (aws.AwsError, vault.Unreadable) as error:
            log.event("passwords_unavailable", reason=type(error).__name__, holder=request.owner)
            if isinstance(error, vault.Unreadable) and request.edge:
                await self._reports.store(request.account, request.edge, request.owner, request.digest)
        if answer.status != 401:
            self._limits.give_back(request.owner, request.address)
        return answer

    async def _verify(self, request: PasswordRequest, credentials: BasicCredentials, key: bytes) -> PasswordAnswer:
        module = await self._module(request)
        if module is None or module.rule is None:
            return PasswordAnswer(503)
        is_current = module.rule.digest == request.digest
        if is_current and key in self._passed:
            self._passed.move_to_end(key)
            return PasswordAnswer(200, is_current=True)
        users = await asyncio.to_thread(_open_users, module, request)
        if self._waiting.get(request.owner, 0) >= _MAX_WAITING:
            return PasswordAnswer(503)
        if not await self._matches(request.owner, credentials, users):
            return PasswordAnswer(401)
        if is_current:
            _remember(self._passed, key, None, _MAX_PASSED)
        return PasswordAnswer(200, is_current=is_current)

    async def _module(self, request: PasswordRequest) -> BasicAuthModule | None:
        cached = self._modules.get((request.owner, request.digest))
        module = cached or await asyncio.to_thread(_read_module, request)
        if module and module.rule:
            _remember(self._modules, (request.owner, module.rule.digest), module, _MAX_MODULES)
        return module

    async def _matches(self, owner: str, credentials: BasicCredentials, users: Mapping[str, bytes]) -> bool:
        """Return whether the password of a user is right.

        For an unknown user, the check takes the same time, so that the time does not reveal user names.
        """
        expected, loop = users.get(credentials.username, _NOBODY), asyncio.get_running_loop()
        self._waiting[owner] = self._waiting.get(owner, 0) + 1
        try:
            is_right = await loop.run_in_executor(self._threads, passwords.matches, credentials.password, expected)
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner]
        return is_right and credentials.username in users

    def _key_of(self, request: PasswordRequest, credentials: BasicCredentials) -> bytes:
        """Return the key by which the result for credentials is remembered.

        The key is a digest that is keyed with a random key, so that no password stays in memory.
        """
        facts = (
            request.account,
            request.owner,
            request.digest,
            request.address,
            credentials.username,
            credentials.password,
        )
        return hashlib.blake2b("\0".join(facts).encode(), key=self._key, digest_size=32).digest()


def _remember(cache: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > limit:
        cache.popitem(last=False)


def _read_module(request: PasswordRequest) -> BasicAuthModule | None:
    """Read the module of a route or reservation from the store.

    Return None if it is missing, malformed or not enabled. Raises aws.Unavailable.
    """
    if request.edge:
        scope = edges.routes_scope(items.scope(request.account, kinds.HTTPS_EDGES.path), request.edge)
    else:
        scope = items.scope(request.account, kinds.RESERVED_DOMAINS.path)
    item = table.find(scope, request.owner)
    try:
        module = BasicAuthModule.of(item.modules["basic_auth"]) if item else None
    except (KeyError, MalformedRecord):
        return None
    return module if module and module.enabled else None


def _open_users(module: BasicAuthModule, request: PasswordRequest) -> Mapping[str, bytes]:
    """Return the password digests of a module, by user. Raises vault.Unreadable, aws.Unavailable."""
    return module.open_passwords(vault.context(request.account, request.owner))
