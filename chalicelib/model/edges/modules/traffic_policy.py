"""The traffic policy of TCP edges: a JSON document in a string, stored as it was sent."""

from dataclasses import dataclass
from typing import Any

from chalicelib.model.audit import details
from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class TrafficPolicyModule(StoredModule):
    """A JSON document of rules, stored as it was sent."""

    value: str

    AUDITED = ("enabled", "value")

    def audited_fields(self) -> dict[str, Any]:
        """Return a digest of the document, because its rules can contain secrets."""
        return {**super().audited_fields(), "value": details.digest(self.value)}


MODULE = EdgeModule(
    name="traffic_policy",
    parents=(kinds.TCP_EDGES,),
    stored=TrafficPolicyModule,
    read=lambda module: module,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=False,
    budget=920_000,
    memory=lambda _: Memory(),
    built_by="filters.policy_matchers.build_port_matcher",
)
