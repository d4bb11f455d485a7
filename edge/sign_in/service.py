"""The sign-in service: decides about each request of an OAuth route that has no valid session token.

Envoy decides which route a request matches. The service never decides about access by the path, because its rules for
paths could differ from Envoy's.
"""

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from chalicelib.storage.client import aws
from edge.process import log
from edge.sign_in import cookies, replies
from edge.sign_in.callbacks import Callbacks
from edge.sign_in.checks import SessionChecks
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.host import SignInHost
from edge.sign_in.provider.limits import TooManyExchanges
from edge.sign_in.provider.provider_client import ApplicationRejected, Silent, Unreadable
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.session import decisions, passes
from edge.sign_in.session.decisions import Access, Decision
from edge.sign_in.sign_in_records import NotReady, SecretUnreadable
from edge.sign_in.starter import Starter
from edge.sign_in.visits import Visit


class SignInService:
    """Decides which requests Envoy may forward. `sign_in_url` is the URL of the sign-in service's own host."""

    def __init__(self, dependencies: Dependencies, sign_in_url: str) -> None:
        self._records, self._clock, self._counts = dependencies.records, dependencies.clock, dependencies.counts
        self._checks = SessionChecks(dependencies)
        self._starter = Starter(dependencies, sign_in_url)
        self._callbacks = Callbacks(dependencies, self._starter)
        self._host = SignInHost(dependencies, self._starter)

    async def answer(self, visit: Visit) -> Forward | Reply:
        """Return a response, or Forward if the request may pass. After an error, the request does not pass."""
        try:
            return await self._answer(visit)
        except (aws.AwsError, NotReady) as error:
            log.event("oauth_unavailable", reason=type(error).__name__)
        except (Silent, TooManyExchanges, SecretUnreadable) as error:
            log.event("oauth_unavailable", reason=type(error).__name__, route=visit.route)
        except ApplicationRejected:
            return replies.page(502, replies.APPLICATION_REFUSED)
        except Unreadable:
            return replies.page(502, replies.UNREADABLE)
        return replies.page(503, replies.UNAVAILABLE)

    async def _answer(self, visit: Visit) -> Forward | Reply:
        if not visit.host:
            return replies.page(400, replies.NO_HOST)
        if visit.is_of_service:
            return await self._host.answer(visit)
        if not visit.edge:
            return replies.page(503, replies.UNAVAILABLE)
        if not visit.route:
            return await self._callbacks.answer(visit)
        rule = await self._records.rule(visit.account, visit.edge, visit.route, visit.audience)
        if rule is None:
            return replies.page(503, replies.UNAVAILABLE)
        id = cookies.read(visit.cookies, rule.id_cookie)
        session = await self._records.session(id) if id else None
        return await self._decide(visit, rule, id, session)

    async def _decide(self, visit: Visit, rule: SignInRule, id: str, session: Session | None) -> Forward | Reply:
        decision = decisions.decide(session, rule, self._records.client_id(rule), self._clock())
        if decision.access is Access.ASK and session:
            session = await self._checks.now(id, session, rule)
            decision = decisions.decide(session, rule, self._records.client_id(rule), self._clock())
        if session is None or decision.access is Access.SIGN_IN:
            return await self._begin(visit, rule, fresh=decision.fresh)
        if decision.access is Access.DENY:
            address = session.addresses[0] if session.addresses else session.name
            return replies.denial(address, rule.provider, visit.path)
        if decision.access is Access.ASK:
            raise Silent
        if decision.is_check_due:
            self._checks.begin(id, session, rule)
        return await self._pass(rule, id, session, decision)

    async def _begin(self, visit: Visit, rule: SignInRule, *, fresh: bool) -> Reply:
        if not visit.is_page_request:
            return replies.no_session(visit.path)
        return await self._starter.begin(visit, rule, visit.path, fresh=fresh)

    async def _pass(self, rule: SignInRule, id: str, session: Session, decision: Decision) -> Forward:
        now = self._clock()
        if decisions.is_seen_late(session, rule, now):
            await self._records.record_seen(id, now)
        session_pass = passes.make_pass(session, rule, decision, self._records.signing_key(), now)
        self._counts.on_renewal()
        return Forward(session_pass.headers, session_pass.cookies)
