"""The data stack, <name>-data: its parameters, and its creation or update."""

from collections.abc import Mapping

from infra import ROOT
from infra.deploy import stacks

TEMPLATE = ROOT / "infra" / "deploy" / "data.yaml"
PARAMETERS = ("MultiRegion",)  # beside Name; all other parameters of a deployment are the API's
_OLDER_THAN_PARAMETER = {"MultiRegion": "false"}  # what a stack has that was made before the parameter existed


def deploy(name: str, given: Mapping[str, str], *, role: str | None = None) -> dict[str, str]:
    """Create or update the data stack and return its outputs.

    Parameters that are not given keep their values. Raises CommandError, aws.AwsError.
    """
    return stacks.deploy(TEMPLATE.read_text(), stack_of(name), _parameters(name, given), role=role)


def stack_of(name: str) -> str:
    """Return the name of the data stack of a deployment."""
    return f"{name}-data"


def _parameters(name: str, given: Mapping[str, str]) -> dict[str, str]:
    deployed = stacks.parameters(stack_of(name))
    values = {**(_OLDER_THAN_PARAMETER if deployed else {}), **deployed, **given}
    return {"Name": name, **{parameter: values[parameter] for parameter in PARAMETERS if parameter in values}}
