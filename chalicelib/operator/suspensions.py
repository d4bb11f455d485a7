"""Suspensions, and offboarding of users, bots, API keys and federated credentials."""

import time
from collections.abc import Iterator
from typing import Literal

import click

from chalicelib.model import changes
from chalicelib.model.accounts import switching
from chalicelib.model.accounts.switching import LastAdmin
from chalicelib.model.audit.trail import OPERATOR, operator_event
from chalicelib.model.base import kinds, switches
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.switches import Switch
from chalicelib.model.changes import Change
from chalicelib.model.offboarding import offboarding
from chalicelib.model.offboarding.offboarding import OffboardingResult
from chalicelib.model.offboarding.tree_ends import Choice
from chalicelib.operator import accounts, keys, owners
from chalicelib.operator.command_line import (
    CommandError,
    OperatorCommand,
    OperatorGroup,
    UnknownId,
    account_argument,
    reason_option,
)
from chalicelib.storage.records import items
from chalicelib.storage.records.revocation_lists import ListFull

federated = OperatorGroup("federated", help="Federated credentials.")

_KINDS = (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)
_ID = "The id of the account (acct_…), SSH credential (sshcr_…) or user certificate (sucrt_…)."


def suspend_id(id: str) -> None:
    """Suspend an account, SSH credential or user certificate, and end its tunnels. Raises CommandError."""
    _switch(Change(OPERATOR).add(operator_event(f"{_find_noun(id)}.suspend", id)), id, "off")


def resume_id(id: str) -> None:
    """Undo a suspension. Raises CommandError."""
    _switch(Change(OPERATOR).add(operator_event(f"{_find_noun(id)}.resume", id)), id, "on")


@click.command(
    "suspend", cls=OperatorCommand, help="Refuse an account, SSH credential or user certificate from now on."
)
@click.argument("id", help=_ID)
@reason_option
def suspend(id: str) -> None:
    """Run the command `suspend`."""
    suspend_id(id)


@click.command(
    "resume", cls=OperatorCommand, help="Accept a suspended account, SSH credential or user certificate again."
)
@click.argument("id", help=_ID)
@reason_option
def resume(id: str) -> None:
    """Run the command `resume`."""
    resume_id(id)


def _switch(change: Change, id: str, to: Switch) -> None:
    kind = kinds.identify(id)
    if kind is kinds.ACCOUNTS:
        switching.switch_account(change, id, to)
        return
    scopes = (items.scope(account.id, kind.path) for account in accounts.list_accounts())
    if not any(changes.rewrite(change, scope, id, lambda item: switches.turn(item, to)) for scope in scopes):
        raise CommandError(f"There is no {kind.name} {id}.")


def _find_noun(id: str) -> str:
    """Return the word for the kind of an id in actions of audit events, such as "account". Raises CommandError."""
    kind = next((kind for kind in _KINDS if kind.has(id)), None)
    if kind is None:
        accounts.check_account(id)
    return (kind or kinds.ACCOUNTS).noun


def offboard_id(account_id: str, id: str, choice: Choice) -> Iterator[OffboardingResult]:
    """Offboard a user, bot, API key or federated credential. Repeat the call until offboarding is complete.

    Yield the result of each call. Raises UnknownId, CommandError.
    """
    accounts.check_account(account_id)
    while True:
        try:
            report = offboarding.offboard(Change(OPERATOR), account_id, id, choice)
        except LastAdmin:
            raise CommandError(f"{id} is the last active admin of {account_id}: add another one first.") from None
        except ListFull:
            raise CommandError(
                "The revocation list of an SSH authority is full: delete revocations that are not needed, then repeat."
            ) from None
        if report is None:
            raise UnknownId(f"The account {account_id} has no {kinds.identify(id).name} {id}.")
        yield report
        if report.complete:
            return
        time.sleep(report.retry_after)


def _build_command(kind: Kind, default: str) -> click.Command:
    """Return the command `offboard` for a kind of resource. `default` is the default of the option --others."""

    @click.command(
        "offboard", cls=OperatorCommand, help=f"End a {kind.name} and all that its keys made. Takes about 20 seconds."
    )
    @account_argument
    @click.argument("id", help=f"The id of the {kind.name} ({kind.prefix}_…).")
    @click.option(
        "--others",
        type=click.Choice(["end", "keep"]),
        default=default,
        help=f"Whether to end the resources that its keys made for other owners (default: {default}).",
    )
    @click.option(
        "--certificates",
        type=click.Choice(["revoke", "keep"]),
        default="revoke",
        help="Whether to revoke the SSH user certificates (default: revoke).",
    )
    @reason_option
    def offboard(
        account: str, id: str, others: Literal["end", "keep"], certificates: Literal["revoke", "keep"]
    ) -> None:
        if not kind.has(id):
            raise UnknownId(f"The account {account} has no {kind.name} {id}.")
        for report in offboard_id(account, id, Choice(others, certificates)):
            _print(report)

    return offboard


def _print(report: OffboardingResult) -> None:
    counts = ", ".join(f"{number} {kind.name}" for kind, number in report.ended.items()) or "nothing"
    print(f"{'complete' if report.complete else 'not complete yet'}: ended {counts}", flush=True)
    if report.complete:
        for id, owner in report.kept.items():
            print(f"kept {id} {owner or '-'}")
        if report.kept_more:
            print(f"kept {report.kept_more} more")


owners.users.add_command(_build_command(kinds.USERS, "keep"))
owners.bots.add_command(_build_command(kinds.BOT_USERS, "keep"))
keys.group.add_command(_build_command(kinds.API_KEYS, "end"))
federated.add_command(_build_command(kinds.FEDERATED_CREDENTIALS, "end"))
