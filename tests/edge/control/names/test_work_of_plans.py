"""The work to plan and send a name that a change affects, beside loaded names of other accounts."""

import asyncio
import cProfile

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from edge.control.names.account_plans import AccountPlans
from edge.control.names.loading import Loading, find_bounds
from edge.control.names.name_builder import EnvoyNames
from edge.control.names.name_resolver import NameResolver
from edge.control.names.reads import StoreReads
from edge.envoy import listeners
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import scopes
from edge.link.authority import KeyPair
from edge.plan.cold_reads import Answers
from edge.plan.loaded import LoadedName, LoadedNames
from edge.process.settings import Settings
from edge.serving.order import NameResources, Sender
from tests.transports import Client

DOMAIN, NAME = "tunnels.localhost", "a.tunnels.localhost"
OTHERS = 500
SETTINGS, PAIR = Settings(tunnel_domain=DOMAIN), KeyPair("chain", "key")
SERVICE = Service(DOMAIN, operator_names=frozenset({f"*.{DOMAIN}"}))


class Host:
    """The plans of one account on a host without an Envoy. `count` returns the function calls for changed records."""

    def __init__(self, account: str) -> None:
        discovery, self.loaded = Discovery(b"key"), LoadedNames(find_bounds(SETTINGS.limits))
        self.sender = Sender(discovery)
        builder = EnvoyNames(SETTINGS, "PEM", lambda: SERVICE, lambda: PAIR, lambda _: None)
        state = self.loaded, Answers(10, 100), set(), lambda *_: None, self._answer, 1e9  # type: ignore[var-annotated]
        self.plans = AccountPlans(account, Loading(NameResolver(DOMAIN), builder, self.sender, StoreReads(1), *state))

    async def add_others(self, count: int) -> None:
        """Load names of as many other accounts."""
        for number in range(count):
            name = f"o{number}.example.com"
            self.loaded.put(LoadedName(name, f"acct_{number}", "", 40, 0))
            secret = listeners.build_secret(name, "chain", "key")
            await self.sender.send(NameResources(name, (), scopes.build_closed_scope(name), secret))

    async def count(self, before: AccountRecords, after: AccountRecords) -> int:
        await self.plans.replace(before)
        assert await self.plans.load(NAME) == "served"
        await self.plans.replace(after)  # fills the caches of templates
        profile = cProfile.Profile()
        profile.enable()
        await self.plans.replace(before)
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    async def _answer(self, *_: object) -> None:
        pass


def test_loaded_names_of_other_accounts_add_no_work_to_a_change(admin: Client) -> None:
    response = admin.create("/backends/http_response", {"body": "a"})["id"]
    edge = admin.create("/edges/https", {"hostports": [f"{NAME}:443"]})["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": response}}
    admin.create(f"/edges/https/{edge}/routes", route)
    resolver = NameResolver(DOMAIN)
    before = resolver.read(admin.account, NAME, None)
    admin.patch(f"/backends/http_response/{response}", {"body": "b"})
    after = resolver.read(admin.account, NAME, None)

    async def count(others: int) -> int:
        host = Host(admin.account)
        await host.add_others(others)
        return await host.count(before, after)

    alone = asyncio.run(count(0))
    assert asyncio.run(count(OTHERS)) <= 1.1 * alone
