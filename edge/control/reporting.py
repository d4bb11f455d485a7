"""The reports of this host about edges: Envoy's errors, and results of trials (test connections)."""

import secrets
from collections.abc import Callable, Iterable

from chalicelib.model.serving.account_view import Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.account_names import AccountNames
from edge.control.names.loading import NameErrors
from edge.control.rejections import Errors, Rejections
from edge.control.special import SpecialNames
from edge.control.special_account import ItemReader
from edge.control.statuses import Statuses
from edge.control.trials import EdgeHost, Trials
from edge.envoy import listeners
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.plan.names import NamePlan
from edge.process import files, tasks
from edge.process.settings import Settings


class Reporting:
    """Collects and writes the reports of one edge host. `find_names` returns the loaded names of an account."""

    def __init__(
        self,
        settings: Settings,
        discovery: Discovery,
        special: SpecialNames,
        reader: ItemReader,
        service: Callable[[], Service],
        find_names: Callable[[str], AccountNames | None],
    ) -> None:
        id = _host_id(settings)
        self._discovery, self._special, self._find_names = discovery, special, find_names
        state = self._is_changing, self._find_plan, self._errors_of, self._is_settled
        self._trials = Trials(EdgeHost(settings, id, reader, service, *state))
        names, retry = lambda: service().operator_names, self._trials.retry
        self._statuses = Statuses(id, lambda: discovery.has_envoy, names, retry)
        self._rejections = Rejections(id, self._statuses.schedule)

    def report_name(self, plan: NamePlan, errors: NameErrors) -> None:
        """Record Envoy's errors about a name."""
        self._rejections.report_name(plan, errors)

    def on_answers(self, answered: Iterable[Name]) -> None:
        """Handle Envoy's answers about the listeners of special edges."""
        for name in (answer for answer in answered if answer.kind == "listener"):
            if plan := self._special.find_plan(name.name):
                self._check(plan, name.name)

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Forget resolved errors, and schedule trials, after records have changed."""
        changed = [*item_keys]
        self._rejections.forget(changed)
        self._trials.apply(changed)

    async def serve(self) -> None:
        """Write reports, and run trials of edges, until cancelled."""
        await tasks.run_all(self._statuses.serve(), self._trials.serve())

    def _is_changing(self, account: str) -> bool:
        names = self._find_names(account)
        return (names is not None and names.is_busy) or self._special.is_changing(account)

    def _find_plan(self, account: str, edge: str) -> Plan | None:
        names = self._find_names(account)
        return names.find_plan(edge) if names else None

    def _is_settled(self, plan: Plan) -> bool:
        """Return whether Envoy has answered about all resources that an edge needs."""
        catalog = self._discovery.catalog
        if self._is_changing(plan.edge.account):
            return False
        needed = (
            Name("listener", listener) for listener in (listeners.FRONT, *self._special.list_listeners(plan.edge.id))
        )
        return all(catalog.version(name) is None or catalog.current_answer(name) for name in needed)

    def _errors_of(self, plan: Plan) -> Errors:
        """Return Envoy's errors about an edge.

        Earlier errors about listeners are included, because Envoy does not answer again about an unchanged listener.
        """
        for listener in self._special.list_listeners(plan.edge.id):
            self._check(plan, listener)
        return self._rejections.errors_of(plan.edge.id, plan.edge.revision)

    def _check(self, plan: Plan, listener: str) -> None:
        if answer := self._discovery.catalog.current_answer(Name("listener", listener)):
            self._rejections.report_listener(plan, listener, answer.error)


def _host_id(settings: Settings) -> str:
    """Return the stored id of this edge host, created at its first start."""
    file = settings.directory / "host"
    if not file.exists():
        files.replace(file, secrets.token_hex(8).encode())
    return file.read_text()
