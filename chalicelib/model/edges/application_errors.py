"""Errors of routes' applications that the sign-in service met, for the status of edges. One record for each edge.

An error counts for a day, and only for the module with which it happened. A later sign-in that succeeds removes it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from chalicelib import clock
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import direct_writes, items

VALIDITY = timedelta(days=1)
_SENTENCES = {
    "application": "The provider refuses this application: set another client_id and client_secret.",
    "secret": "The client secret cannot be decrypted: set client_secret again.",
}


@dataclass(frozen=True)
class ApplicationError:
    """An error of the module with a digest, at an RFC 3339 time. `reason` is "application" or "secret"."""

    digest: str
    at: str
    reason: str

    @property
    def sentence(self) -> str:
        """Return the error for users."""
        return _SENTENCES[self.reason]


def place(account: str, edge_id: str) -> tuple[str, str]:
    """Return the place of the record of an edge."""
    return items.scope(account, "/oauth_errors"), edge_id


def write(rule: SignInRule, reason: str) -> None:
    """Replace the error of a route's application. Raises aws.Unavailable."""
    at = clock.rfc3339(clock.now())
    end = clock.seconds() + int(VALIDITY.total_seconds())
    made = {"digest": rule.digest, "at": at, "reason": reason}
    direct_writes.merge(*place(rule.account, rule.edge), {rule.route: made}, expires=end)


def remove(rule: SignInRule) -> None:
    """Remove the error of a route's application, if there is one. Raises aws.Unavailable."""
    exists = Condition(f"attribute_exists(#body.#{rule.route})")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(*place(rule.account, rule.edge), exists, sets={f"body.{rule.route}": None}))


def decode(body: Mapping[str, Mapping[str, str]]) -> dict[str, ApplicationError]:
    """Return the errors of a record that are less than VALIDITY old, by route."""
    found = {route: ApplicationError(it["digest"], it["at"], it["reason"]) for route, it in body.items()}
    now = clock.now()
    return {route: it for route, it in found.items() if clock.parse(it.at) + VALIDITY > now}
