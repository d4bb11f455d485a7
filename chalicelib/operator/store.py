"""The table and the key alias that the environment names."""

from chalicelib.operator.command_line import CommandError, OperatorGroup
from chalicelib.storage import provisioning, vault
from chalicelib.storage.client import dynamodb

group = OperatorGroup("store", help="The table and the key that the environment names.")


def create_store() -> list[str]:
    """Create the table and the key alias; return a line for each.

    Raises CommandError if both exist, or if KEY_ID is no alias.
    """
    table_name, key_id = dynamodb.table_name(), vault.key_id()
    if not key_id.startswith("alias/"):
        raise CommandError(f"KEY_ID is {key_id}: to create a key, set it to an alias, alias/….")
    is_new = {f"table {table_name}": provisioning.create_table(), f"key {key_id}": provisioning.create_key()}
    if not any(is_new.values()):
        raise CommandError(f"The table {table_name} and the key {key_id} are there already: nothing was created.")
    return [f"{what} {'was created' if new else 'is there already'}" for what, new in is_new.items()]


@group.command("create", help="Create the table and the key alias if they do not exist.")
def _create() -> None:
    for line in create_store():
        print(line)
