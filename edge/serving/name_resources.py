"""Builds the resources of a name from its plan. Pure."""

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
    """Return the resources of a name.

    `pair` is the certificate of the plan with its key, or None to leave out the secret.
    """
    return NameResources(
        plan.name,
        scopes.build_clusters(plan, backends, link_authority, settings),
        scopes.build_scope(plan),
        listeners.build_secret(plan.name, pair.chain, pair.key) if pair else None,
    )


def build_certificate_only(server_name: str, pair: KeyPair) -> NameResources:
    """Return the resources of a server name that has a certificate but no routes.

    Such a name is either unknown and below TUNNEL_DOMAIN, so requests get a 404 page. Or it has capital letters, so
    requests use the scope of the name in lower case.
    """
    return NameResources(server_name, (), None, listeners.build_secret(server_name, pair.chain, pair.key))
