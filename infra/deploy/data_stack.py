"""The data stack, <name>-data: its parameters, creation and update."""

from collections.abc import Mapping

from infra import ROOT
from infra.deploy import index_steps, stacks

TEMPLATE = ROOT / "infra" / "deploy" / "data.yaml"
PARAMETERS = (
    "MultiRegion",
    "OperatorRoleArn",
    "OwnTableKey",
)  # the parameters of the data stack besides Name; all other parameters of a deployment belong to the API's stack
_OLDER_THAN_PARAMETER = {"MultiRegion": "false"}  # values for stacks deployed before these parameters existed


def deploy(
    name: str, parameters: Mapping[str, str], *, role: str | None = None, tags: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Create or update the data stack and return its outputs.

    CloudFormation changes one index of the table in each update, so there can be several updates. Absent parameters
    keep their values. Raises CommandError, aws.AwsError.
    """
    stack, outputs = stack_of(name), {}
    for template in index_steps.of(stacks.template(stack), TEMPLATE.read_text()):
        outputs = stacks.deploy(template, stack, _parameters(name, parameters), role=role, tags=tags)
    return outputs


def stack_of(name: str) -> str:
    """Return the name of the data stack of a deployment."""
    return f"{name}-data"


def _parameters(name: str, parameters: Mapping[str, str]) -> dict[str, str]:
    deployed = stacks.parameters(stack_of(name))
    values = {**(_OLDER_THAN_PARAMETER if deployed else {}), **deployed, **parameters}
    return {"Name": name, **{parameter: values[parameter] for parameter in PARAMETERS if parameter in values}}
