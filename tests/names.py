"""Names below the domain of tunnels, and their refusals."""

from chalicelib.model.names import base_names
from tests.refusals import assert_refused
from tests.transports import Answer

D = "tunnels.example"
TEAM = f"team.{D}"


def assert_taken(answer: Answer, field: str = "hostports.0") -> None:
    rule = "must be a value that no other resource uses"
    assert_refused(answer, 409, "conflict", f"'{field}' is in use already.", {field: rule})


def assert_kept(answer: Answer, field: str = "hostports.0") -> None:
    sentence, rule = f"'{field}' is reserved by the operator: choose another name.", base_names.OPERATOR_NAME_RULE
    assert_refused(answer, 409, "conflict", sentence, {field: rule})
