"""Decides whether a request may pass, from its session, its route's OAuth rule, and the time. This file does no I/O.

Times are Unix seconds.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from edge.sign_in.provider.facts import Facts, Permission, admit, fold

MAX_TOKEN = 60  # the maximum lifetime of a session token in seconds
_SKEW = 1  # seconds after a token's expiry during which Envoy still accepts the token


class Access(Enum):
    """The result of a decision: the request may pass, or the reason why it may not."""

    SIGN_IN = auto()  # the request has no valid session
    ASK = auto()  # the provider must be asked about the user before the decision
    DENY = auto()  # the user may not pass
    PASS = auto()


@dataclass(frozen=True)
class Decision:
    """A decision about a request.

    If `fresh`, the provider must show its sign-in page even to a user who is signed in there. If `is_check_due`, the
    provider is asked about the user again while the request is forwarded. `lifetime` is the validity of a new session
    token in seconds. It is 0 if no token is issued, because the session's end or next recheck is too near.
    """

    access: Access
    fresh: bool = False
    permission: Permission = field(default_factory=Permission)
    lifetime: int = 0
    is_check_due: bool = False


def decide(session: Session | None, rule: SignInRule, client_id: str, now: float) -> Decision:
    """Decide by the session and the OAuth rule whether a request may pass.

    `client_id` is the id of the OAuth application that the rule uses now.
    """
    if session is None or not _belongs(session, rule, client_id):
        return Decision(Access.SIGN_IN)
    if now >= session.signed_in_at + rule.max_session:
        return Decision(Access.SIGN_IN, fresh=True)
    if rule.inactivity_timeout and now >= session.seen_at + rule.inactivity_timeout:
        return Decision(Access.SIGN_IN)
    due = session.checked_at + rule.check_interval
    if now >= due or not _suffices(session, rule):
        return Decision(Access.ASK)
    permission = admit(facts_of(session), rule)
    if permission is None:
        return Decision(Access.DENY)
    early = session.checked_at + rule.check_interval * 3 / 4
    return Decision(
        Access.PASS, permission=permission, lifetime=_lifetime(session, rule, now), is_check_due=now >= early
    )


def facts_of(session: Session) -> Facts:
    """Return the stored facts about the user of a session."""
    return Facts(
        session.subject,
        tuple(session.addresses),
        session.name,
        tuple(session.teams),
        tuple(session.organizations),
    )


def is_seen_late(session: Session, rule: SignInRule, now: float) -> bool:
    """Return whether the session's `seen_at` must be stored again.

    `seen_at` is the time at which the session was last used. While a session is in use, `seen_at` is stored
    at least about four times within an inactivity timeout.
    """
    return bool(rule.inactivity_timeout) and now >= session.seen_at + max(1, _quarter(rule) - 1)


def _belongs(session: Session, rule: SignInRule, client_id: str) -> bool:
    """Return whether a session has the route, provider, OAuth application and cookie prefix of a rule."""
    of_session = (session.account, session.edge, session.route, session.provider, session.client_id)
    of_rule = (rule.account, rule.edge, rule.route, rule.provider, client_id)
    return of_session == of_rule and session.cookie_prefix == rule.cookie_prefix


def _suffices(session: Session, rule: SignInRule) -> bool:
    """Return whether the latest check of a session is sufficient for the rule.

    The check must have asked about all teams and organizations that the rule names.
    """
    teams, organizations = set(map(fold, session.asked_teams)), set(map(fold, session.asked_organizations))
    return set(map(fold, rule.teams)) <= teams and set(map(fold, rule.organizations)) <= organizations


def _lifetime(session: Session, rule: SignInRule, now: float) -> int:
    """Return for how many seconds a new session token is valid.

    Envoy must not accept the token any more when the next recheck is due, when the session has reached its longest
    duration, or when the inactivity timeout is over.
    """
    limits = [session.checked_at + rule.check_interval - now, session.signed_in_at + rule.max_session - now]
    if rule.inactivity_timeout:
        limits.append(rule.inactivity_timeout)
        # The sign-in service sees only requests without a valid token, so `seen_at` is stored only then.
        # Therefore, the token must expire when `seen_at` must be stored again.
        if not is_seen_late(session, rule, now):
            limits.append(max(session.seen_at + _quarter(rule) - int(now), 1 + _SKEW))
    usual = max(1, int(_quarter(rule)) - _SKEW)
    return max(0, min(usual, int(min(limits)) - _SKEW))


def _quarter(rule: SignInRule) -> float:
    """Return the maximum seconds between two writes of the `seen_at` of a session in use."""
    return min(MAX_TOKEN, max(1, rule.inactivity_timeout / 4)) if rule.inactivity_timeout else MAX_TOKEN
