"""The user agent filter of HTTPS edge routes, with RE2 patterns."""

from dataclasses import dataclass, field

from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class UserAgentModule(StoredModule):
    """RE2 patterns of the User-Agent headers to allow and to deny."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)

    AUDITED = ("enabled", "allow", "deny")


def _estimate(module: UserAgentModule) -> Memory:
    """Return Envoy's memory for the compiled patterns."""
    return Memory(route_kib=24.0 + 0.03 * sum(map(len, (*module.allow, *module.deny))))


MODULE = EdgeModule(
    name="user_agent_filter",
    parents=(kinds.HTTPS_EDGE_ROUTES,),
    stored=UserAgentModule,
    read=lambda module: module,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=True,
    budget=9_300,
    memory=_estimate,
    built_by="filters.user_agents.build_passing",
)
