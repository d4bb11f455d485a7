"""Plans how the loaded names of an account are served, and sends Envoy the resources for the plans."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime

from chalicelib.model.serving import certificate_choice
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.sites import OPERATOR
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names import gateway_users
from edge.control.names.loading import Loading, NameErrors, Outcome
from edge.link.authority import KeyPair
from edge.plan import sizes
from edge.plan.loaded import LoadedName, Refusal
from edge.plan.names import NamePlan
from edge.process import log
from edge.serving.order import Rejection
from edge.store.records import Unavailable

_AT_ONCE = 16  # the most names to plan and send before other tasks of this process can run
_MAX_PLANS = 4  # the most plans to try for a name, if Envoy rejects each of them
_TOO_LARGE = "The routes need more memory than an account can have on an edge host."
_UNREADABLE = "A changed record of the account cannot be read, so the name is not served."
_FAILED = "The edge host failed to prepare the name: ask the operator."
_NO_PAIRS: Mapping[str, KeyPair] = {}
_NO_KEY = "The private key of the certificate cannot be decrypted."


class AccountPlans:
    """The records of an account, and the plans of its loaded names. Only one method may run at a time."""

    def __init__(self, account: str, shared: Loading) -> None:
        self.records = AccountRecords(account, frozenset())
        self._records_by_name: dict[str, AccountRecords] = {}  # a cache of at most _AT_ONCE results of `_records_of`
        self.used: dict[str, frozenset[ItemKey]] = {}  # the primary keys of the records that each loaded name uses
        self.expires_at = float("inf")  # the Unix time at which the next lease or certificate begins or ends
        self.has_unread_keys = False  # whether the store failed when the new private key of a loaded name was read
        self._account = account
        self._shared, self._loaded, self._sender = shared, shared.loaded, shared.sender
        self.plans: dict[str, NamePlan] = {}  # the current plan of each loaded name
        self._pairs: dict[str, KeyPair] = {}  # certificates with their decrypted keys, by certificate id
        self._accepted: set[str] = set()  # names for which Envoy has accepted a plan
        self._rejected: dict[str, str] = {}  # Envoy's errors about the certificates that it rejected, by certificate id
        self._errors: dict[str, tuple[NamePlan, NameErrors]] = {}  # the reported errors of each loaded name
        self.unread: set[ItemKey] = set()  # changed records that could not be read
        self.unreadable: set[str] = set()  # names refused because a changed record could not be read

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.plans)

    def find_pair(self, name: str) -> KeyPair | None:
        """Return the key pair for the certificate of a loaded name."""
        certificate = plan.certificate if (plan := self.plans.get(name)) else ""
        return self._shared.builder.operator_pair() if certificate == OPERATOR else self._pairs.get(certificate)

    async def replace(self, records: AccountRecords, pairs: Mapping[str, KeyPair] = _NO_PAIRS) -> None:
        """Replace the records, and add key pairs. Plan a name again if its records have changed and all can be read."""
        before, self.records, self._records_by_name = self.records, records, {}
        self._shared.gateway_users.put(self._account, gateway_users.list_gateways(records))
        self.expires_at = records.find_next_expiry(time.time())
        self._pairs = {id: pair for id, pair in {**self._pairs, **pairs}.items() if id in records.certificates}
        differing, unreadable = before.find_differences(records, before.versions), self.unreadable
        self.unreadable = {name for name in unreadable if not self.used.get(name, frozenset()).isdisjoint(self.unread)}
        users = [name for name, used in self.used.items() if name in unreadable or not used.isdisjoint(differing)]
        await self.update(users)

    async def load(self, name: str) -> Outcome:
        """Plan a name, and send Envoy the planned resources with the name's secret. Raises Unavailable."""
        plan, is_new = self._plan(name), name not in self.plans
        if not plan.certificate:
            self._report_refused(plan)
            return "closed" if plan.is_closed else "unserved"
        if refusal := await self._make_room(plan):
            return refusal
        self._put(plan, None)
        self._loaded.request(name, time.monotonic())
        if await self._send(plan) is None:
            return "served"
        if is_new:
            await self._sender.withdraw([name])
            self.plans.pop(name, None)  # otherwise `_drop` would report the name's errors as resolved
            self._drop([name])
        else:
            self._put(plan, time.monotonic())
        return "rejected"

    async def update_all(self) -> None:
        """Plan all names again, and send the changes to Envoy."""
        self.has_unread_keys = False
        await self.update(list(self.plans))

    async def update(self, names: Sequence[str]) -> None:
        """Plan names again, and send the changes to Envoy. Names that are not served any more come first."""
        for start in range(0, len(names), _AT_ONCE):
            readable = self.plans.keys() - self.unreadable
            plans = [self._plan(name) for name in names[start : start + _AT_ONCE] if name in readable]
            refused = [plan for plan in plans if not plan.certificate]
            await self._withdraw(refused)
            for plan in refused:
                self._report_refused(plan)
            await asyncio.gather(*(self._change(plan) for plan in plans if plan.certificate))

    async def refuse_unreadable(self, item_keys: Set[ItemKey]) -> None:
        """Stop serving the names that use changed records, until the records can be read."""
        plans = [plan for name, plan in self.plans.items() if not self.used[name].isdisjoint(item_keys)]
        self.unreadable.update(plan.name for plan in plans)
        await self._withdraw_with(_UNREADABLE, [plan for plan in plans if plan.certificate])

    async def end_pages(self, names: Collection[str]) -> None:
        """Remove the 404 pages of names from Envoy. If a name is served now, remove only the page's certificate."""
        await self._sender.withdraw([name for name in names if not self._is_served(name)])
        await self.remove_secrets(filter(self._is_served, names))  # the next handshake requests the name's own secret

    async def remove_secrets(self, names: Iterable[str]) -> None:
        """Remove the secrets of names from Envoy, except names that were requested since the removal was scheduled."""
        await self._sender.remove_secrets([name for name in names if self._is_without_secret(name)])

    async def unload(self, names: Iterable[str]) -> None:
        """Unload names, except names that were requested since the unloading was scheduled."""
        unused = [name for name in names if self._is_without_secret(name)]
        await self._sender.remove_scopes(unused)
        self._drop(unused)

    def report_again(self) -> None:
        """Report Envoy's errors about loaded names again.

        A change of a record deletes the errors about it, but Envoy may have rejected the changed record before that.
        """
        for plan, errors in self._errors.values():
            self._shared.report(plan, replace(errors, certificates=self._rejected_certificates(plan.name)))

    def release(self, name: str) -> None:
        """Forget a name, unless it is served."""
        if name in self.plans and not self._is_served(name):
            self._drop([name])

    async def _withdraw_with(self, refusal: str, plans: Iterable[NamePlan]) -> None:
        """Stop serving names. The status of their edges shows `refusal` as the reason."""
        refused = [NamePlan(plan.name, plan.account, refusal=refusal, refused_by=plan.edge) for plan in plans]
        await self._withdraw(refused)
        for plan in refused:
            self._report(plan, NameErrors(refusal))

    async def _withdraw(self, plans: Collection[NamePlan]) -> None:
        """Stop serving names. Still handle changes of their records, in case the names are served again."""
        names = [plan.name for plan in plans if plan.name in self.plans]
        self.used |= {name: frozenset(self._records_of(name).versions) for name in names}
        served = [plan for plan in plans if self._is_served(plan.name)]
        for plan in served:
            self._put(plan, time.monotonic())
            self._accepted.discard(plan.name)
        if served:
            await self._sender.withdraw([plan.name for plan in served])

    async def _change(self, plan: NamePlan) -> None:
        """Send the new plan of a loaded name. If Envoy rejects it, the earlier plan stays in service."""
        refusal = await self._make_room(plan)
        if (loaded := self._loaded.find(plan.name)) is None:
            return
        if refusal:
            await self._withdraw_with(_TOO_LARGE, [plan])
            return
        has_page = plan.name in self._shared.pages
        self._shared.pages.discard(plan.name)
        self._put(plan, None if has_page else loaded.secret_removed_at)
        try:
            rejection = await self._send(plan)
        except Unavailable:
            self.has_unread_keys = True  # `check` plans the name again. Envoy keeps the plan that it accepted before
            return
        if rejection and rejection.kind == "scope" and plan.restricts_visitors:
            self._report(plan, NameErrors(rejection.error, rejection.error))
            await self._withdraw([NamePlan(plan.name, plan.account, refusal=rejection.error, refused_by=plan.edge)])

    def _plan(self, name: str) -> NamePlan:
        """Return the plan of a name. If planning fails, the plan says that the name is not served."""
        try:
            return self._shared.builder.plan(name, self._records_of(name), datetime.now(UTC))
        except Exception as error:
            log.failure("name_failed", error, account=self._account)
            return NamePlan(name, self._account, refusal=_FAILED)

    def _records_of(self, name: str) -> AccountRecords:
        """Return only the records that a name uses. They are cached until records change or the cache is full."""
        if name not in self._records_by_name:
            records = self.records if self.records.names == {name} else self._shared.reader.keep(self.records, [name])
            cache = self._records_by_name if len(self._records_by_name) < _AT_ONCE else {}
            self._records_by_name = {**cache, name: replace(records, rejected=self._rejected)}
        return self._records_by_name[name]

    async def _send(self, plan: NamePlan) -> Rejection | None:
        """Send a plan. If Envoy rejects it, try other plans. Return the last rejection, or None if one is accepted."""
        rejection, of_routes = None, ""
        for _ in range(_MAX_PLANS):
            if (rejection := await self._send_once(plan)) is None:
                self.plans[plan.name] = plan
                self._accepted.add(plan.name)
                break
            log.event("name_rejected", account=plan.account, host=plan.name, reason=rejection.error)
            of_routes = rejection.error if rejection.kind == "scope" else of_routes
            if (other := self._avoid(plan, rejection)) is None:
                break
            plan = other
        refusal = rejection.error if rejection and plan.name not in self._accepted else ""
        self._report(plan, NameErrors(refusal, of_routes, self._rejected_certificates(plan.name)))
        return rejection

    def _report(self, plan: NamePlan, errors: NameErrors) -> None:
        """Report the errors of a name, and remember them while the name is loaded."""
        self._errors.pop(plan.name, None)
        if plan.name in self.plans and errors != NameErrors():
            self._errors[plan.name] = plan, errors
        self._shared.report(plan, errors)

    def _report_refused(self, plan: NamePlan) -> None:
        """Report that a name is not served. Include errors only if Envoy has rejected certificates for the name."""
        certificates = self._rejected_certificates(plan.name)
        self._report(plan, NameErrors(plan.refusal if certificates else "", "", certificates))

    def _rejected_certificates(self, name: str) -> dict[str, str]:
        """Return Envoy's errors about certificates that cover a name."""
        covers_any, certificates, rejected = certificate_choice.covers_any, self.records.certificates, self._rejected
        return {id: rejected[id] for id in certificates if id in rejected and covers_any(certificates[id], name)}

    async def _send_once(self, plan: NamePlan) -> Rejection | None:
        pair = None
        if not self._is_without_secret(plan.name) and (pair := await self._read_pair(plan)) is None:
            return Rejection("secret", _NO_KEY)
        try:
            resources = self._shared.builder.build(plan, self._records_of(plan.name), pair)
        except ValueError as error:
            return Rejection("scope", str(error))
        return await self._sender.send(resources)

    async def _read_pair(self, plan: NamePlan) -> KeyPair | None:
        """Return the key pair of a plan. Return None if it cannot be decrypted. Raises Unavailable."""
        if plan.certificate == OPERATOR:
            return self._shared.builder.operator_pair()
        if plan.certificate not in self._pairs:
            read = self._shared.reads.for_visitor(self._shared.reader.key_pair, plan.certificate, self.records)
            if pair := await read:
                self._pairs[plan.certificate] = pair
        return self._pairs.get(plan.certificate)

    def _avoid(self, plan: NamePlan, rejection: Rejection) -> NamePlan | None:
        """Return another plan to try after a rejection, or None.

        The other plan avoids a rejected certificate. If the rejected routes restrict visitors, it admits no visitors.
        """
        if rejection.kind == "secret" and plan.certificate != OPERATOR:
            self._rejected[plan.certificate] = rejection.error
            other = self._plan(plan.name)
            return other if other.certificate not in (plan.certificate, "") else None
        if rejection.kind == "secret" or plan.name not in self._accepted:
            return None
        closed = plan.close_refused(rejection.error)
        return None if closed == plan else closed

    async def _make_room(self, plan: NamePlan) -> Refusal:
        """Unload other names of the account if memory is short. Return why the plan does not fit, or ""."""
        if (room := self._loaded.make_room(self._measure(plan, None))).refusal == "account":
            log.event("name_rejected", account=plan.account, host=plan.name, reason=_TOO_LARGE)
            self._report(plan, NameErrors(_TOO_LARGE))
        if room.unloaded:
            await self._sender.withdraw(room.unloaded)
            self._drop(room.unloaded)
        return room.refusal

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._loaded.remove(name)
            self._accepted.discard(name)
            self.used.pop(name, None)
            self._errors.pop(name, None)
            if plan := self.plans.pop(name, None):
                self._shared.report(plan, NameErrors())

    def _put(self, plan: NamePlan, secret_removed_at: float | None) -> None:
        """Store the plan of a name. `secret_removed_at` is None if Envoy has or gets the name's secret."""
        self.plans[plan.name] = plan
        self.used[plan.name] = frozenset(self._records_of(plan.name).versions)
        self._loaded.put(self._measure(plan, secret_removed_at))

    def _measure(self, plan: NamePlan, secret_removed_at: float | None) -> LoadedName:
        before, is_withdrawn = self._loaded.find(plan.name), not plan.certificate
        requested_at = before.requested_at if before else time.monotonic()
        kib, wildcard = sizes.estimate(plan, self.records), sizes.find_wildcard(plan)
        return LoadedName(plan.name, plan.account, wildcard, kib, requested_at, secret_removed_at, is_withdrawn)

    def _is_served(self, name: str) -> bool:
        plan = self.plans.get(name)
        return plan is not None and bool(plan.certificate)

    def _is_without_secret(self, name: str) -> bool:
        loaded = self._loaded.find(name)
        return loaded is not None and loaded.secret_removed_at is not None
