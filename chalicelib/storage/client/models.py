"""Service models and endpoint addresses for botocore, reduced to DynamoDB and KMS.

botocore itself searches the folders of 400 services twice, reads all their addresses (1.2 MB), and evaluates endpoint
rules for each call. These rules only matter for settings that this API does not use.
"""

from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader
from botocore.session import Session

SERVICES = ("dynamodb", "kms")
_RULES = "endpoint-rule-set-1"
# settings that need more than the reduced data: with one of them, botocore loads all of its data itself
_SETTINGS = ("data_path", "use_dualstack_endpoint", "use_fips_endpoint")


class _Named(Loader):  # type: ignore[misc]  # botocore has no types
    """A loader of botocore's data that finds DynamoDB and KMS without searching folders."""

    def list_available_services(self, type_name: str) -> tuple[str, ...]:
        return SERVICES


class Models(Loader):  # type: ignore[misc]  # botocore has no types
    """Loads botocore's data without the endpoint rules of the two services."""

    def __init__(self) -> None:
        super().__init__()
        self._named = _Named()

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        """Return a model of a service. Raises UnknownServiceError for endpoint rules, so that botocore skips them."""
        if service_name not in SERVICES:
            return super().load_service_model(service_name, type_name, api_version)
        if type_name == _RULES:
            raise UnknownServiceError(service_name=service_name, known_service_names="")
        return self._named.load_service_model(service_name, type_name, api_version)

    def load_data_with_path(self, name: str) -> tuple[Any, str]:
        """Return the data of one of botocore's files, and the path of the file.

        The data of endpoints.json (1.2 MB) is derived from partitions.json (7 KB), which is faster to load.
        """
        if name != "endpoints":
            data, path = super().load_data_with_path(name)
            return data, str(path)
        partitions, path = super().load_data_with_path("partitions")
        return {"partitions": [_addresses(partition) for partition in partitions["partitions"]]}, str(path)


def install(session: Session) -> None:
    """Make a session load these reduced models, unless a setting requires botocore's complete data."""
    if not any(session.get_config_variable(setting) for setting in _SETTINGS):
        session.register_component("data_loader", Models())


def _addresses(partition: dict[str, Any]) -> dict[str, Any]:
    """Return the domain names of an AWS partition's services in the format of botocore's endpoints.json."""
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
