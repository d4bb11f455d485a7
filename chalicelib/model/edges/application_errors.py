"""Errors that the sign-in service found in modules of routes, for the status of edges.

There is one record for each edge. An error is shown for a day, unless its module changes. The next successful sign-in
removes the error of an OAuth application.
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
    "passwords": "The passwords cannot be decrypted: set the credentials again.",
    "secret": "The client secret cannot be decrypted: set client_secret again.",
    "webhook": "The webhook secret cannot be decrypted: set the secret again.",
}
# for each module with a secret, except OAuth: the key of the sentence that the secret cannot be decrypted
_UNREADABLE: Mapping[str, str] = {"basic_auth": "passwords", "webhook_verification": "webhook"}


@dataclass(frozen=True)
class ApplicationError:
    """An error that the sign-in service found in a module of a route.

    `digest` is the digest of the module's settings, `at` an RFC 3339 time, and `reason` a key of _SENTENCES.
    """

    digest: str
    at: str
    reason: str

    @property
    def sentence(self) -> str:
        """Return the sentence that describes the error in the edge's status."""
        return _SENTENCES[self.reason]


def item_key(account: str, edge_id: str) -> tuple[str, str]:
    """Return the primary key of the record with the errors of an edge's routes."""
    return items.scope(account, "/oauth_errors"), edge_id


def write(rule: SignInRule, reason: str) -> None:
    """Store an error of a route's OAuth application. It replaces the application's earlier error.

    Raises aws.Unavailable.
    """
    _write(rule.account, rule.edge, rule.route, rule.digest, reason)


def write_unreadable(account: str, edge_id: str, route: str, module: str, digest: str) -> None:
    """Store the error that the secret of a route's module cannot be decrypted. Raises aws.Unavailable.

    `digest` is the digest of the module's settings.
    """
    _write(account, edge_id, key_of(route, module), digest, _UNREADABLE[module])


def key_of(route: str, module: str) -> str:
    """Return the key of the error of a route's module in the record of an edge.

    The error of an OAuth module has another key: the route's id.
    """
    return f"{route}_{module}"


def list_keys(route: str) -> list[str]:
    """Return the keys under which the record of an edge can have errors of a route."""
    return [route, *(key_of(route, module) for module in _UNREADABLE)]


def _write(account: str, edge_id: str, key: str, digest: str, reason: str) -> None:
    at = clock.rfc3339(clock.now())
    end = clock.seconds() + int(VALIDITY.total_seconds())
    direct_writes.merge(*item_key(account, edge_id), {key: {"digest": digest, "at": at, "reason": reason}}, expires=end)


def remove(rule: SignInRule) -> None:
    """Remove the error of a route's OAuth application, if there is one. Raises aws.Unavailable."""
    exists = Condition(f"attribute_exists(#body.#{rule.route})")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(*item_key(rule.account, rule.edge), exists, sets={f"body.{rule.route}": None}))


def decode(body: Mapping[str, Mapping[str, str]]) -> dict[str, ApplicationError]:
    """Return the errors in the body of a record, by key (see `key_of`). Errors older than VALIDITY are left out."""
    errors = {route: ApplicationError(entry["digest"], entry["at"], entry["reason"]) for route, entry in body.items()}
    now = clock.now()
    return {route: error for route, error in errors.items() if clock.parse(error.at) + VALIDITY > now}
