"""Builds Envoy's resources for a server name from its plan: clusters, scope and secret. This file does no I/O."""

from edge.envoy import listeners
from edge.envoy.names import scopes
from edge.envoy.names.scopes import Backends
from edge.link.authority import KeyPair
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from edge.serving.order import NameResources


def build_name_resources(
    plan: NamePlan, pair: KeyPair | None, backends: Backends, link_authority: str, settings: Settings
) -> NameResources:
    """Return Envoy's resources for a name.

    `pair` is the certificate that the plan names, with its private key. Without `pair`, the secret is left out.
    """
    return NameResources(
        plan.name,
        scopes.build_clusters(plan, backends, link_authority, settings),
        scopes.build_scope(plan),
        listeners.build_secret(plan.name, pair.chain, pair.key) if pair else None,
    )


def build_certificate_only(server_name: str, pair: KeyPair) -> NameResources:
    """Return Envoy's resources for a server name that gets a certificate but no scope (routes).

    There are two cases. If no edge or tunnel serves a name below TUNNEL_DOMAIN, requests get a 404 page. If
    a name contains capital letters, requests use the scope of the same name in lower case.
    """
    return NameResources(server_name, (), None, listeners.build_secret(server_name, pair.chain, pair.key))
