"""The plan of a name: who answers it, and with which certificate. Pure."""

from dataclasses import dataclass
from datetime import datetime

from edge.plan.account_records import AccountRecords
from edge.plan.edges import Plan
from edge.plan.world import Site


@dataclass(frozen=True)
class NamePlan:
    """How a name is served.

    `certificate` is a certificate's id or OPERATOR, "" if the name is not served or its TLS ends upstream. Either
    `site` (a tunnel) or `edge` answers. `refusal` says why nothing does. A special name needs its own chain or
    listener.
    """

    name: str
    account: str
    certificate: str = ""
    site: Site | None = None
    edge: Plan | None = None
    refusal: str = ""
    is_special: bool = False

    @property
    def is_served(self) -> bool:
        return bool(self.site or self.edge)


def plan_name(name: str, records: AccountRecords, now: datetime) -> NamePlan:
    """Return the plan of a name at a time."""
    raise NotImplementedError
