"""Builds the headers and the cookie for a request that may pass because of its session. This file does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from edge.sign_in import cookies
from edge.sign_in.session import decisions, tokens
from edge.sign_in.session.decisions import Decision
from edge.sign_in.session.tokens import SigningKey


@dataclass(frozen=True)
class Pass:
    """The headers that are added because a request may pass.

    `headers` are added to the request that the upstream receives. `cookies` are Set-Cookie headers for the visitor.
    """

    headers: Mapping[str, str]
    cookies: tuple[str, ...]


def make_pass(session: Session, rule: SignInRule, decision: Decision, key: SigningKey, now: float) -> Pass:
    """Return the headers about the user, and the cookie with a session token.

    There is no cookie if the decision permits no token (its `lifetime` is 0).
    """
    facts = decisions.facts_of(session)
    claims = tokens.make_claims(rule, facts, decision.permission, now=now, lifetime=decision.lifetime)
    set_cookies = (cookies.build(rule.session_cookie, tokens.sign(claims, key)),) if decision.lifetime else ()
    return Pass(tokens.list_headers(claims), set_cookies)
