"""Commands that create the table TABLE_NAME and the KMS key KEY_ID. They also check the policies of SSH authorities."""

from collections.abc import Iterator

from chalicelib.model.accounts import accounts
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.ssh import policies
from chalicelib.model.ssh.policies import PolicyModule
from chalicelib.operator.command_line import CommandError, OperatorGroup
from chalicelib.storage import provisioning, vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import items, table

_DAY = 24 * 60 * 60

group = OperatorGroup("store", help="The table and the key that the environment names.")


def create_store() -> list[str]:
    """Create the table, and the KMS key with its alias. Return a line of text about each.

    Raises CommandError if both exist, or if KEY_ID is not an alias.
    """
    table_name, key_id = dynamodb.table_name(), vault.key_id()
    if not key_id.startswith("alias/"):
        raise CommandError(f"KEY_ID is {key_id}: to create a key, set it to an alias, such as alias/tunnel-edge.")
    is_new = {f"table {table_name}": provisioning.create_table(), f"key {key_id}": provisioning.create_key()}
    if not any(is_new.values()):
        raise CommandError(f"The table {table_name} and the key {key_id} exist already: nothing was created.")
    return [f"{name} {'was created' if new else 'is there already'}" for name, new in is_new.items()]


def find_short_trails() -> Iterator[str]:
    """Yield a sentence for each SSH policy that permits certificates to live longer than audit events.

    Offboarding finds certificates by their audit events, so it would miss certificates older than the events.
    """
    days = trail.audit_days()
    for account in table.list_newest(accounts.SCOPE):
        authorities = table.list_newest(items.scope(account.id, kinds.SSH_CERTIFICATE_AUTHORITIES.path))
        for authority in authorities:
            policy = PolicyModule.of(authority.modules.get(policies.NAME, {}))
            max_lifetime = policy.user.max_lifetime if policy.enabled and policy.user else None
            if max_lifetime and max_lifetime > days * _DAY:
                yield (
                    f"AUDIT_DAYS is {days}: offboarding does not find older certificates, but the policy of"
                    f" {authority.id} of {account.id} permits user certificates of {max_lifetime} seconds."
                )


@group.command("check", help="Report settings that contradict records in the table.")
def _check() -> None:
    problems = list(find_short_trails())
    for problem in problems:
        print(problem)
    if problems:
        raise CommandError(f"{len(problems)} problems were found.")
    print("No problem was found.")


@group.command("create", help="Create the table and the key alias if they do not exist.")
def _create() -> None:
    for line in create_store():
        print(line)
