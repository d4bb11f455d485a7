"""The command that replaces the keys of the sign-in service. They sign session tokens and encrypt OAuth states."""

import click

from chalicelib.model.sign_in import signing_keys
from chalicelib.operator.command_line import OperatorGroup, reason_option

group = OperatorGroup("edge", help="The live edge.")


@group.command("rotate-sign-in-keys", help="Replace the keys of the sign-in service at once.")
@click.option("--now", is_flag=True, required=True, help="Confirm that visitors who are signing in must start again.")
@reason_option
def _rotate(now: bool) -> None:
    count = signing_keys.remove_all()
    print(f"{count} key pairs removed: the sign-in service makes another within seconds")
