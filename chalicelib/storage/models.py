"""The models of the two services that are used, and addresses that follow from a region alone.

botocore looks through the folders of 400 services twice, reads the addresses of all of them (1.2 MB), and goes through
the rules for an address at each call: for an account's own one, the table's, and what no setting here asks for.
"""

from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader
from botocore.session import Session

SERVICES = ("dynamodb", "kms")
_RULES = "endpoint-rule-set-1"
_OTHERWISE = ("data_path", "use_dualstack_endpoint", "use_fips_endpoint")  # settings by which all is botocore's


class _Named(Loader):  # type: ignore[misc]  # botocore has no types
    """Knows the services without looking for them."""

    def list_available_services(self, type_name: str) -> tuple[str, ...]:
        return SERVICES


class Models(Loader):  # type: ignore[misc]  # botocore has no types
    """Loads what botocore has, and of the two services no rules for addresses."""

    def __init__(self) -> None:
        super().__init__()
        self._named = _Named()

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        """Return a model. Raises UnknownServiceError, for the rules too, where botocore then does without."""
        if service_name not in SERVICES:
            return super().load_service_model(service_name, type_name, api_version)
        if type_name == _RULES:
            raise UnknownServiceError(service_name=service_name, known_service_names="")
        return self._named.load_service_model(service_name, type_name, api_version)

    def load_data_with_path(self, name: str) -> tuple[Any, str]:
        """Return data and where it is; the addresses are made of the partitions, which are 7 KB."""
        if name != "endpoints":
            data, path = super().load_data_with_path(name)
            return data, str(path)
        partitions, path = super().load_data_with_path("partitions")
        return {"partitions": [_addresses(partition) for partition in partitions["partitions"]]}, str(path)


def use_in(session: Session) -> None:
    """Make a session load these models, unless a setting asks for other models or addresses."""
    if not any(session.get_config_variable(setting) for setting in _OTHERWISE):
        session.register_component("data_loader", Models())


def _addresses(partition: dict[str, Any]) -> dict[str, Any]:
    """Return the addresses of a partition's services in the form of botocore's file of them."""
    return {
        "partition": partition["id"],
        "dnsSuffix": partition["outputs"]["dnsSuffix"],
        "regionRegex": partition["regionRegex"],
        "regions": partition["regions"],
        "defaults": {
            "hostname": "{service}.{region}.{dnsSuffix}",
            "protocols": ["https"],
            "signatureVersions": ["v4"],
        },
        "services": {},
    }
