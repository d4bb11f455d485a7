"""Plans loaded names, and builds their resources, with the current certificate of the operator."""

from collections.abc import Callable
from datetime import datetime

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from edge.link.authority import KeyPair
from edge.plan import names
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from edge.serving import name_resources
from edge.serving.order import NameResources


class EnvoyNames:
    """Implements loading.NameBuilder. `service` returns the current settings, `operator_pair` the operator's key pair.

    `on_special` receives the plans of special names: Envoy needs further resources for these before visitors connect.
    """

    def __init__(
        self,
        settings: Settings,
        link_authority: str,
        service: Callable[[], Service],
        operator_pair: Callable[[], KeyPair],
        on_special: Callable[[NamePlan], None],
    ) -> None:
        self.operator_pair, self._on_special = operator_pair, on_special
        self._settings, self._link_authority, self._service = settings, link_authority, service

    def plan(self, name: str, records: AccountRecords, now: datetime) -> NamePlan:
        plan = names.plan_name(name, records, now, self._service())
        if plan.is_special:
            self._on_special(plan)
        return plan

    def build(self, plan: NamePlan, records: AccountRecords, pair: KeyPair | None) -> NameResources:
        view = AccountView(records, self._service())
        return name_resources.build_name_resources(plan, pair, view, self._link_authority, self._settings)

    def build_certificate(self, server_name: str, pair: KeyPair) -> NameResources:
        return name_resources.build_certificate_only(server_name, pair)
