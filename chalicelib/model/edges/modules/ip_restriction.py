"""Restriction of visitors by their address, on edges, routes, and the tunnels of reserved domains and addresses."""

from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.base.records import References, StoredModule
from chalicelib.model.edges import edge_modules
from chalicelib.model.edges.edge_modules import EdgeModule, Memory

MAX_NAMED = 10  # the most IP policies that a module or a tunnel can name


@dataclass(frozen=True, kw_only=True)
class IpRestrictionModule(StoredModule):
    """The ids of the IP policies that decide which visitors may pass."""

    ip_policy_ids: list[str]

    AUDITED = ("enabled", "ip_policy_ids")

    def references(self) -> References:
        return {"ip_policy_ids": self.ip_policy_ids}


def _read(module: IpRestrictionModule) -> IpRestrictionModule | None:
    return module if module.ip_policy_ids and all(map(edge_modules.is_id, module.ip_policy_ids)) else None


MODULE = EdgeModule(
    name="ip_restriction",
    parents=(
        *(kinds.HTTPS_EDGES, kinds.HTTPS_EDGE_ROUTES, kinds.TLS_EDGES, kinds.TCP_EDGES),
        *(kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS),
    ),
    stored=IpRestrictionModule,
    read=_read,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=False,
    budget=2_100,
    memory=lambda _: Memory(),  # edge/plan/sizes.py estimates the memory, which depends on the IP policies
    configures_route="filters.visitor_addresses.restrict_route",
)
