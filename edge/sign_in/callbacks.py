"""The paths below /_service/ on the hosts of OAuth edges: callback, sign-in and sign-out."""

import hmac
import secrets
import time

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from edge.process import log
from edge.sign_in import cookies, replies
from edge.sign_in.checks import with_facts
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.provider.facts import Facts
from edge.sign_in.provider.provider_client import ApplicationRejected, ExchangeFailed, Rejected
from edge.sign_in.replies import Reply
from edge.sign_in.sealed import state
from edge.sign_in.sealed.state import State
from edge.sign_in.session import decisions, passes
from edge.sign_in.session.decisions import Access
from edge.sign_in.sign_in_records import RouteOfHost
from edge.sign_in.starter import Starter
from edge.sign_in.visits import SERVICE, Visit, safe_path

_UNAVAILABLE = ("server_error", "temporarily_unavailable")
_REFUSED = (
    *("invalid_client", "unauthorized_client", "invalid_request", "invalid_scope", "unsupported_response_type"),
    *("application_suspended", "redirect_uri_mismatch"),
)
_NOT_FOUND = "404: this path belongs to the sign-in service, which has no such page."


class Callbacks:
    """Answers requests to the paths below /_service/ on the host that a visitor requests."""

    def __init__(self, dependencies: Dependencies, starter: Starter) -> None:
        self._needs, self._starter = dependencies, starter
        self._records, self._clock = dependencies.records, dependencies.clock

    async def answer(self, visit: Visit) -> Reply:
        """Return the response to a request. Raises ExchangeFailed, TooManyExchanges, aws.Unavailable."""
        match visit.endpoint.removeprefix(SERVICE):
            case "callback" if visit.method == "GET":
                return await self._callback(visit)
            case "sign-in" if visit.method == "GET":
                return await self._sign_in(visit)
            case "sign-out" if visit.method in ("GET", "POST"):
                return await self._sign_out(visit)
        return replies.page(404, _NOT_FOUND)

    async def _sign_in(self, visit: Visit) -> Reply:
        to = safe_path(visit.parameter("to"))
        rule = _find_rule(await self._records.routes(visit.account, visit.edge), to)
        if rule is None:
            return replies.redirect(to, 303)
        has_session = bool(cookies.read(visit.cookies, rule.id_cookie))
        return await self._starter.begin(visit, rule, to, fresh=has_session)

    async def _sign_out(self, visit: Visit) -> Reply:
        to = safe_path(visit.parameter("to"))
        if not visit.is_from_this_site:
            return replies.sign_out_page(to)
        removed: list[str] = []
        for rule in [route.rule for route in await self._records.routes(visit.account, visit.edge) if route.rule]:
            if id := cookies.read(visit.cookies, rule.id_cookie):
                await self._records.end_session(id)
            removed += map(cookies.build_removal, (rule.id_cookie, rule.session_cookie))
        return replies.redirect(to, 303, removed)

    async def _callback(self, visit: Visit) -> Reply:
        begun = self._starter.unseal(visit.parameter("state"))
        if begun is None or (begun.host, begun.account, begun.edge) != (visit.host, visit.account, visit.edge):
            return _not_begun_here("/")
        rule = await self._records.current_rule(begun.account, begun.edge, begun.route)
        if rule is None:
            return replies.redirect(begun.path, 303)
        login = cookies.read(visit.cookies, rule.login_cookie)
        if not login or not hmac.compare_digest(state.digest(login), begun.login):
            return _not_begun_here(begun.path)
        if rule.audience != begun.audience:
            return await self._starter.begin(visit, rule, begun.path, fresh=False)
        return await self._complete(visit, rule, begun)

    async def _complete(self, visit: Visit, rule: SignInRule, begun: State) -> Reply:
        """Exchange the code in the provider's redirect, and return the response to the visitor."""
        provider = self._needs.providers[rule.provider]
        if provider.has_response_issuer and visit.parameter("iss") != provider.issuer:
            return replies.page(403, replies.NOT_ACCEPTED)
        if visit.parameter("error") != "":
            return _explain(visit.parameter("error"), begun.path)
        code = visit.parameter("code")
        if not code:
            return _not_begun_here(begun.path)
        began, outcome = time.monotonic(), "passed"
        try:
            return await self._redeem(visit, rule, begun, code)
        except ExchangeFailed as error:
            outcome = error.outcome
            if isinstance(error, ApplicationRejected):
                await self._records.report_application(rule, "application")
            if not isinstance(error, Rejected):
                raise
            log.event("oauth_rejected", route=rule.route, provider=rule.provider, reason=str(error))
            link = (replies.sign_in_link(begun.path), "Sign in")
            return replies.page(403, replies.NOT_ACCEPTED, link=link)
        finally:
            self._needs.counts.on_sign_in(rule.provider, outcome, time.monotonic() - began)

    async def _redeem(self, visit: Visit, rule: SignInRule, begun: State, code: str) -> Reply:
        app = await self._records.application(rule)
        if app is None:
            return replies.page(503, replies.UNAVAILABLE)
        with self._needs.limits.track(rule.account, visit.address):
            tokens, facts = await self._needs.client.redeem(
                self._needs.providers[rule.provider],
                app,
                rule,
                code=code,
                redirect_uri=self._starter.redirect_uri,
                verifier=begun.verifier,
                nonce=begun.nonce,
            )
        await self._records.report_application(rule)
        if former := cookies.read(visit.cookies, rule.id_cookie):
            await self._records.end_session(former)
        id, session = secrets.token_urlsafe(32), self._new_session(rule, app.client_id, facts)
        await self._records.start_session(id, session, tokens, rule)
        set_cookies = [cookies.build(rule.id_cookie, id), *self._token_cookies(rule, session)]
        return replies.redirect(begun.path, 303, set_cookies)

    def _new_session(self, rule: SignInRule, client_id: str, facts: Facts) -> Session:
        now = int(self._clock())
        session = Session(
            account=rule.account,
            edge=rule.edge,
            route=rule.route,
            provider=rule.provider,
            client_id=client_id,
            cookie_prefix=rule.cookie_prefix,
            subject=facts.subject,
            signed_in_at=now,
            seen_at=now,
            checked_at=now,
        )
        return with_facts(session, rule, facts, now)

    def _token_cookies(self, rule: SignInRule, session: Session) -> tuple[str, ...]:
        """Return the Set-Cookie header with a new session's first token.

        Return no header if the user may not pass.
        """
        now = self._clock()
        decision = decisions.decide(session, rule, session.client_id, now)
        if decision.access is not Access.PASS:
            return ()
        return passes.make_pass(session, rule, decision, self._records.signing_key(), now).cookies


def _find_rule(routes: list[RouteOfHost], path: str) -> SignInRule | None:
    """Return the OAuth rule of the first route that matches a path, or None.

    The rule only determines the provider for a sign-in. Envoy decides for each request which rule applies.
    """
    plain = path.partition("?")[0]
    for route in routes:
        if plain == route.match if route.match_type == "exact_path" else plain.startswith(route.match):
            return route.rule
    return None


def _explain(error: str | None, path: str) -> Reply:
    """Return the page for an error in the provider's redirect (RFC 6749, section 4.1.2.1)."""
    if error in _UNAVAILABLE:
        return replies.page(503, replies.UNAVAILABLE)
    if error in _REFUSED:
        return replies.page(502, replies.APPLICATION_REFUSED)
    return replies.page(403, replies.DECLINED, link=(replies.sign_in_link(path), "Sign in"))


def _not_begun_here(path: str) -> Reply:
    return replies.page(400, replies.NOT_BEGUN_HERE, link=(replies.sign_in_link(path), "Sign in"))
