"""Rechecks sessions: asks the identity provider of a session about its user again.

If a recheck is due, a request waits for the result. If a recheck is due soon, the request is forwarded at once, and the
recheck runs in the background.
"""

import asyncio
import dataclasses

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.provider.facts import Facts
from edge.sign_in.provider.limits import TooManyExchanges
from edge.sign_in.provider.provider_client import ExchangeFailed, Rejected, Silent, Tokens
from edge.sign_in.sign_in_records import SecretUnreadable

# Seconds: the longest wait of a request for a recheck, and the wait if `max_stream` is short (see `_longest_wait`).
_WAIT, _SHORT_WAIT = 5.0, 1.5
_POLL = 0.25  # seconds between two reads of a session while another sign-in process rechecks it
_TURN = 12.0  # seconds for which a sign-in process reserves the recheck of a session
# if a recheck fails with one of these errors, the session can be rechecked after a second
_DELAYING = (ExchangeFailed, TooManyExchanges, SecretUnreadable, aws.AwsError)


class SessionChecks:
    """Rechecks sessions at their providers. Runs at most one check of a session at a time."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._needs, self._records, self._clock = dependencies, dependencies.records, dependencies.clock
        self._running: dict[str, asyncio.Task[Session | None]] = {}

    def begin(self, id: str, session: Session, rule: SignInRule) -> None:
        """Start a check of a session, unless one is running. Do not wait for its result."""
        self._task(id, session, rule)

    async def now(self, id: str, session: Session, rule: SignInRule) -> Session | None:
        """Check a session and wait for the result. Return the renewed session, or None if it has ended.

        Raises ExchangeFailed, TooManyExchanges, aws.Unavailable.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(self._task(id, session, rule)), _longest_wait(rule))
        except TimeoutError:
            raise Silent from None

    def _task(self, id: str, session: Session, rule: SignInRule) -> "asyncio.Task[Session | None]":
        if id not in self._running:
            task = asyncio.create_task(self._check(id, session, rule))
            self._running[id] = task
            task.add_done_callback(lambda task: self._forget(id, task))
        return self._running[id]

    def _forget(self, id: str, task: "asyncio.Task[Session | None]") -> None:
        self._running.pop(id, None)
        if not task.cancelled():
            task.exception()  # reads the error, since asyncio would log it if no request has awaited the task

    async def _check(self, id: str, session: Session, rule: SignInRule) -> Session | None:
        end = self._clock() + _WAIT
        while not await self._records.begin_check(id, self._clock(), lasting=_TURN):
            if self._clock() > end:
                raise Silent
            await asyncio.sleep(_POLL)
            current = await self._records.session(id)
            if current is None or current.checked_at > session.checked_at:
                return current
        try:
            tokens, facts = await self._ask(session, rule)
        except (Rejected, vault.Unreadable):
            self._needs.counts.on_check("ended")
            await self._records.end_session(id)
            return None
        except _DELAYING:
            await self._records.delay_check(id, self._clock())
            raise
        self._needs.counts.on_check("renewed")
        return await self._store(id, session, rule, tokens, facts)

    async def _ask(self, session: Session, rule: SignInRule) -> tuple[Tokens, Facts]:
        """Ask the provider about the user of a session. Return the user's new tokens and facts."""
        app = await self._records.application(rule)
        if app is None:
            raise Silent
        tokens = await self._records.tokens(session)
        with self._needs.limits.track(rule.account):
            try:
                return await self._needs.client.check(self._needs.providers[rule.provider], app, rule, tokens)
            except ExchangeFailed as failed:
                if not isinstance(failed, Rejected):
                    self._needs.counts.on_check(failed.outcome)
                raise

    async def _store(self, id: str, session: Session, rule: SignInRule, tokens: Tokens, facts: Facts) -> Session | None:
        if facts.subject != session.subject:
            await self._records.end_session(id)
            return None
        renewed = with_facts(session, rule, facts, self._clock())
        if await self._records.renew_session(id, renewed, tokens, session):
            return renewed
        return await self._records.session(id)


def _longest_wait(rule: SignInRule) -> float:
    """Return the most seconds for which a request waits for a recheck.

    Envoy ends the request after `max_stream` seconds, so the wait must be shorter.
    """
    return min(_WAIT, max(_SHORT_WAIT, rule.max_stream / 4), rule.max_stream * 3 / 4)


def with_facts(session: Session, rule: SignInRule, facts: Facts, now: float) -> Session:
    """Return a session with new facts about its user.

    `now` is the time at which the provider sent the facts.
    """
    return dataclasses.replace(
        session,
        addresses=list(facts.addresses),
        name=facts.name,
        teams=list(facts.teams),
        organizations=list(facts.organizations),
        asked_teams=list(rule.teams),
        asked_organizations=list(rule.organizations),
        checked_at=int(now),
    )
