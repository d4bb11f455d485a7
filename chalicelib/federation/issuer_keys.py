"""The keys of issuers, cached in the table for all processes.

Only one process at a time fetches the keys of an issuer. Keys are fresh for an hour. If the issuer cannot be reached,
its cached keys can be used for another day. A token with an unknown `kid` causes at most one fetch per minute.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib import clock
from chalicelib.federation import issuers
from chalicelib.federation.fetching import SECONDS, Fetcher, FetchFailed
from chalicelib.federation.key_sets import KeySet
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write

# Cached keys are fetched again FRESH seconds after their last fetch. They cannot be used after USABLE seconds.
FRESH, USABLE = 3600, 25 * 3600
# After one process began to fetch the keys of an issuer, no process may begin another fetch for this many seconds:
# PAUSE while the cached keys can be used, otherwise TURN.
TURN, PAUSE = 5, 60
ID = "keys"

_POLL = 0.25  # seconds between two reads of the cached keys, while another process fetches the keys


class IssuerUnreachable(Exception):
    """The issuer cannot be reached, and no cached key matches. The exception's text is a short reason for the log."""


class IssuerNotAllowed(Exception):
    """The setting OIDC_ISSUERS does not allow the issuer. It may have allowed the issuer earlier."""


@dataclass(frozen=True)
class CachedKeys:
    """The cached keys of an issuer.

    `fetched` is the time at which the fetch of these keys began, `turn` the time at which a process last began to fetch
    keys of this issuer, even without success. Both are Unix seconds, 0 if there was no fetch.
    """

    keys: KeySet = field(default_factory=KeySet)
    fetched: int = 0
    turn: int = 0

    @classmethod
    def of_record(cls, record: Mapping[str, Any] | None, issuer: str) -> "CachedKeys":
        """Return the keys in a record, or no keys if the record is missing or malformed."""
        body = (record or {}).get("body")
        turn = int((record or {}).get("turn", 0))
        if not isinstance(body, dict) or body.get("issuer") != issuer or not isinstance(body.get("fetched"), int):
            return cls(turn=turn)
        try:
            return cls(KeySet.parse({"keys": body.get("keys")}), body["fetched"], turn)
        except ValueError:
            return cls(turn=turn)

    def fits(self, kid: str | None, now: int) -> bool:
        """Return whether the keys can still be used and include a key with the `kid`."""
        return now < self.fetched + USABLE and self.keys.find(kid) is not None


def key_of(issuer: str) -> tuple[str, str]:
    """Return the partition key `scope` and the id of the record with an issuer's keys."""
    return f"issuer#{hashlib.sha256(issuer.encode()).hexdigest()}", ID


def find(issuer: str, kid: str | None, record: Mapping[str, Any] | None) -> KeySet:
    """Return the keys of an allowed issuer. `record` is the stored record of these keys, or None.

    Fetches the keys if they are old or `kid` is unknown. Raises IssuerUnreachable, IssuerNotAllowed, aws.Unavailable.
    """
    if issuers.find_problem(issuer):
        raise IssuerNotAllowed
    now = clock.seconds()
    cached = CachedKeys.of_record(record, issuer)
    is_fit = cached.fits(kid, now)
    if is_fit and now < cached.fetched + FRESH:
        return cached.keys
    pause = PAUSE if now < cached.fetched + USABLE else TURN
    if now >= cached.turn + pause:
        if _take_turn(issuer, now, pause):
            return _fetch(issuer, kid, replace(cached, turn=now))
        cached = _read(issuer)
    return cached.keys if is_fit else _await_other(issuer, kid, now, cached)


def _read(issuer: str) -> CachedKeys:
    return CachedKeys.of_record(dynamodb.get(*key_of(issuer)), issuer)


def _take_turn(issuer: str, now: int, pause: int) -> bool:
    """Return whether this process may fetch the keys of an issuer now. If so, record the time.

    Two fetches begin at least `pause` seconds apart.
    """
    free = Condition("attribute_not_exists(#turn) OR #turn <= :before", {"before": now - pause})
    try:
        dynamodb.do(Write.update(*key_of(issuer), free, sets={"turn": now, "expires": now + USABLE}))
    except ConditionFailed:
        return False
    return True


def _fetch(issuer: str, kid: str | None, cached: CachedKeys) -> KeySet:
    """Fetch and store the keys of an issuer. If that fails, return the cached keys if they include `kid`."""
    try:
        document = fetch_document(issuer)
        keys = KeySet.parse(document)
    except (FetchFailed, ValueError) as error:
        if cached.fits(kid, cached.turn):
            return cached.keys
        raise IssuerUnreachable(str(error)) from None
    body = {"issuer": issuer, "keys": [dict(key) for key in keys.keys], "fetched": cached.turn}
    scope, id = key_of(issuer)
    record = {"scope": scope, "id": id, "body": body, "turn": cached.turn, "expires": cached.turn + USABLE}
    dynamodb.do(Write.put({**record, "revision": 1}))
    return keys


def fetch_document(issuer: str) -> Any:
    """Return the JSON Web Key Set (JWKS) of an issuer. Takes at most five seconds. Raises FetchFailed."""
    end = time.monotonic() + TURN
    fetcher = Fetcher(issuers.allows_loopback)
    configuration = fetcher.read_json(f"{issuer.removesuffix('/')}/.well-known/openid-configuration")
    if not isinstance(configuration, dict) or configuration.get("issuer") != issuer:
        raise FetchFailed("the OpenID configuration must name this issuer in the field issuer")
    address = configuration.get("jwks_uri")
    if not isinstance(address, str):
        raise FetchFailed("the OpenID configuration must have a URL in the field jwks_uri")
    return replace(fetcher, seconds=min(SECONDS, end - time.monotonic())).read_json(address)


def _await_other(issuer: str, kid: str | None, now: int, cached: CachedKeys) -> KeySet:
    """Wait while another process fetches the keys, then return the keys. Raises IssuerUnreachable."""
    end = time.monotonic() + TURN
    while not cached.fits(kid, now):
        if cached.turn <= cached.fetched and now < cached.fetched + USABLE:
            return cached.keys  # no process is fetching keys: the last fetch succeeded, but returned no key with `kid`
        if time.monotonic() > end or clock.seconds() >= cached.turn + TURN:
            raise IssuerUnreachable("another process did not fetch the issuer's keys in time")
        time.sleep(_POLL)
        cached = _read(issuer)
    return cached.keys
