"""The two models of services that are used, found by their names: botocore looks through all 400 for each."""

import os
from collections.abc import Sequence

from botocore.loaders import Loader
from botocore.session import Session

SERVICES = ("dynamodb", "kms")


class Models(Loader):  # type: ignore[misc]  # botocore has no types
    """Loads models of DynamoDB and KMS, and no rules for their endpoints.

    Without rules an endpoint follows from the region once, when a client is made: the rules are gone through for each
    call, for an account's own address and the table's.
    """

    def list_available_services(self, type_name: str) -> Sequence[str]:
        """Return the services that have data of a type."""
        return () if type_name == "endpoint-rule-set-1" else SERVICES


def use_in(session: Session) -> None:
    """Have a session load these models, from the folders of its setting too."""
    folders = session.get_config_variable("data_path") or ""
    paths = [os.path.expanduser(os.path.expandvars(folder)) for folder in folders.split(os.pathsep) if folder]
    session.register_component("data_loader", Models(extra_search_paths=paths))
