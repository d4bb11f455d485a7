"""The modules that change headers of requests and of responses: their common stored form and declaration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.audit import details
from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory
from chalicelib.model.edges.headers import header_changes


@dataclass(frozen=True, kw_only=True)
class HeadersModule(StoredModule):
    """The values of headers to set, by name, and the names of headers to remove before that."""

    add: Mapping[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)

    AUDITED = ("enabled", "add", "remove")

    def audited_fields(self) -> dict[str, Any]:
        """Return digests of the header values, because a value can be a credential."""
        digests = {name: details.digest(value) for name, value in sorted(self.add.items())}
        return {**super().audited_fields(), "add": digests}


def declare(
    name: str, check_name: Callable[[str], str], configures_route: str
) -> EdgeModule[HeadersModule, HeadersModule]:
    """Return the declaration of a module that changes headers. `check_name` checks the names of the headers."""

    def read(module: HeadersModule) -> HeadersModule | None:
        try:
            header_changes.check_changes(module.add, module.remove, check_name)
        except ValueError:
            return None
        return module

    return EdgeModule(
        name=name,
        parents=(kinds.HTTPS_EDGE_ROUTES,),
        stored=HeadersModule,
        read=read,
        restricts_visitors=False,
        admits_ambiguous_paths=True,
        needs_plaintext=True,
        budget=3_900,
        memory=_estimate,
        configures_route=configures_route,
    )


def _estimate(module: HeadersModule) -> Memory:
    """Return Envoy's memory for the headers that a module changes. Envoy stores their text four times."""
    texts = [*module.remove, *(f"{name}{value}" for name, value in module.add.items())]
    return Memory(entry_kib=0.6 * len(texts) + 4.0 * sum(map(len, texts)) / 1024)
