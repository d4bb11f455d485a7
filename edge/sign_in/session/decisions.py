"""Decides by a session, a rule and the time what a request may do. Pure. All times are Unix seconds."""

from dataclasses import dataclass, field
from enum import Enum, auto

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from edge.sign_in.provider.facts import Admission, Facts, admit, fold

MAX_TOKEN = 60  # seconds
_SKEW = 1  # seconds that Envoy accepts a token after its end


class Verdict(Enum):
    """What becomes of a request."""

    SIGN_IN = auto()  # it has no session that counts
    ASK = auto()  # only the provider can tell
    DENY = auto()  # the user may not pass
    PASS = auto()


@dataclass(frozen=True)
class Decision:
    """A verdict. `fresh` asks the provider for a fresh sign-in, `is_check_due` for a check beside the request.

    `lifetime` is that of the session token, in seconds.
    """

    verdict: Verdict
    fresh: bool = False
    admission: Admission = field(default_factory=Admission)
    lifetime: int = 0
    is_check_due: bool = False


def decide(session: Session | None, rule: SignInRule, client_id: str, now: float) -> Decision:
    """Return the decision about a request with a session. `client_id` is the application's that is in use."""
    if session is None or not _belongs(session, rule, client_id):
        return Decision(Verdict.SIGN_IN)
    if now >= session.signed_in_at + rule.max_session:
        return Decision(Verdict.SIGN_IN, fresh=True)
    if rule.inactivity_timeout and now >= session.seen_at + rule.inactivity_timeout:
        return Decision(Verdict.SIGN_IN)
    due = session.checked_at + rule.check_interval
    if now >= due or not _suffices(session, rule):
        return Decision(Verdict.ASK)
    admission = admit(facts_of(session), rule)
    if admission is None:
        return Decision(Verdict.DENY)
    early = session.checked_at + rule.check_interval * 3 / 4
    return Decision(
        Verdict.PASS, admission=admission, lifetime=_lifetime(session, rule, now), is_check_due=now >= early
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
    """Return whether `seen_at` must be stored: at most once per quarter of the inactivity timeout."""
    return bool(rule.inactivity_timeout) and now >= session.seen_at + min(rule.inactivity_timeout / 4, MAX_TOKEN)


def _belongs(session: Session, rule: SignInRule, client_id: str) -> bool:
    """Return whether a session is one of the route, its provider and its application."""
    of_session = (session.account, session.edge, session.route, session.provider, session.client_id)
    return of_session == (rule.account, rule.edge, rule.route, rule.provider, client_id)


def _suffices(session: Session, rule: SignInRule) -> bool:
    """Return whether the stored facts decide: they have only teams and organizations that an earlier rule named."""
    teams, organizations = set(map(fold, session.asked_teams)), set(map(fold, session.asked_organizations))
    return set(map(fold, rule.teams)) <= teams and set(map(fold, rule.organizations)) <= organizations


def _lifetime(session: Session, rule: SignInRule, now: float) -> int:
    """Return the lifetime of a session token. No copy of it passes after a limit of the session."""
    quarter = rule.inactivity_timeout / 4 if rule.inactivity_timeout else MAX_TOKEN
    check = session.checked_at + rule.check_interval - now
    end = session.signed_in_at + rule.max_session - now
    return max(1, int(min(MAX_TOKEN, max(quarter, 1), check, end)) - _SKEW)
