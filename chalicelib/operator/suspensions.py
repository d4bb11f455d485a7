"""Suspensions of accounts, SSH credentials and user certificates."""

import click

from chalicelib.model import changes
from chalicelib.model.accounts import switching
from chalicelib.model.audit.trail import OPERATOR, operator_event
from chalicelib.model.base import kinds, switches
from chalicelib.model.base.switches import Switch
from chalicelib.model.changes import Change
from chalicelib.operator import accounts
from chalicelib.operator.command_line import CommandError, OperatorCommand, reason_option
from chalicelib.storage.records import items

_KINDS = (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)
_ID = "Its id (acct_…, sshcr_… or sucrt_…)."


def suspend_id(id: str) -> None:
    """Suspend an account, SSH credential or user certificate, and end its tunnels. Raises CommandError."""
    _switch(Change(OPERATOR).also(operator_event(f"{_noun(id)}.suspend", id)), id, "off")


def resume_id(id: str) -> None:
    """Undo a suspension. Raises CommandError."""
    _switch(Change(OPERATOR).also(operator_event(f"{_noun(id)}.resume", id)), id, "on")


@click.command("suspend", cls=OperatorCommand, help="Refuse an account, SSH credential or user certificate.")
@click.argument("id", help=_ID)
@reason_option
def suspend(id: str) -> None:
    """Run the command `suspend`."""
    suspend_id(id)


@click.command("resume", cls=OperatorCommand, help="Accept it again.")
@click.argument("id", help=_ID)
@reason_option
def resume(id: str) -> None:
    """Run the command `resume`."""
    resume_id(id)


def _switch(change: Change, id: str, to: Switch) -> None:
    kind = kinds.of(id)
    if kind is kinds.ACCOUNTS:
        switching.switch_account(change, id, to)
        return
    scopes = (items.scope(account.id, kind.path) for account in accounts.list_accounts())
    if not any(changes.rewrite(change, scope, id, lambda item: switches.turn(item, to)) for scope in scopes):
        raise CommandError(f"There is no {kind.name} {id}.")


def _noun(id: str) -> str:
    """Return the noun of the id's kind in audit actions. Raises CommandError."""
    kind = next((kind for kind in _KINDS if kind.has(id)), None)
    if kind is None:
        accounts.check_account(id)
    return (kind or kinds.ACCOUNTS).noun
