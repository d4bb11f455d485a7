"""Builds Envoy's resources for special names and for TCP ports. This file does no I/O.

A special name needs a separate filter chain or listener. Envoy always has the resources of special names. Envoy
requests the resources of other names on demand.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chalicelib.model.edges.served import port_of
from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import clusters, edge_listeners, listeners
from edge.envoy.filters import blocking, sign_in
from edge.envoy.names import https_listener, tls_contexts
from edge.envoy.resources import Changes, Key, Resource
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from edge.serving.special_plans import SpecialPlans


class SpecialServing:
    """The resources of all special names.

    `link_authority` is the PEM certificate of the CA that gateways use. While one account takes over a name from
    another account, both accounts can have a resource for the name. The resource from the latest `update` is used.
    """

    def __init__(self, settings: Settings, link_authority: str) -> None:
        self._settings, self._link_authority = settings, link_authority
        self._resources, self._shields = _AccountResources(), _AccountResources()
        self._published: dict[Key, Resource] = {}
        self._listeners = blocking.BlockedListeners()
        self.public_keys: Sequence[Mapping[str, str]] = ()  # keys that verify session tokens, used by `update`

    def update(self, plans: SpecialPlans, view: AccountView) -> Changes:
        """Replace the plans of an account. Return the resources that Envoy must add, change or remove."""
        touched = self._resources.put(view.account, self._build(plans, view))
        touched |= self._shields.put(view.account, self._build_shields(plans))
        return self._listeners.guard(dict(self._publish(touched)))

    def build_clusters(self, plans: SpecialPlans, view: AccountView) -> list[Resource]:
        """Return the clusters of the gateways to which an account's special names forward bytes.

        Other names can share these clusters.
        """
        ids = {tunnel.gateway for tunnel in plans.byte_tunnels} & view.gateways.keys()
        gateways = (view.gateways[id] for id in sorted(ids))
        return [clusters.build_bytes_cluster(gateway, self._link_authority, self._settings) for gateway in gateways]

    def block(self, networks: Iterable[str], banned: Iterable[str]) -> Changes:
        """Return the resources with which Envoy refuses blocked networks and banned hosts."""
        blocked = sorted(networks)
        rules = {rule.key: rule for rule in blocking.build_rules(blocked, banned)}
        return {**rules, **self._listeners.block(blocked)}

    def _publish(self, keys: Iterable[Key]) -> Iterator[tuple[Key, Resource | None]]:
        """Yield the resources with these keys that have changed since they were last yielded."""
        for key in keys:
            resource = self._resources.find(key) or self._shields.find(key)
            if resource != self._published.get(key):
                yield key, resource
            if resource:
                self._published[key] = resource
            else:
                self._published.pop(key, None)

    def _build(self, plans: SpecialPlans, view: AccountView) -> Iterator[Resource]:
        for plan in plans.edges:
            yield from self._build_edge(plan, view)
        for name in plans.tunnels:
            yield from self._build_tunnel(name)
        for port in plans.ports:
            if port.edge:
                yield edge_listeners.build_edge_port_listener(port.edge, port.port, self._settings)
            elif port.tunnel:
                yield listeners.build_tunnel_port_listener(port.tunnel, port.port, self._settings, port.refusals)
        # Connections to a closed host must fail. The chain INTERNAL forwards them to the host's cluster, and this
        # cluster does not exist.
        for host in sorted(plans.closed):
            yield self._build_part(host, https_listener.INTERNAL, refuses_challenges=False)

    def _build_edge(self, plan: Plan, view: AccountView) -> Iterator[Resource]:
        hosts = [host.name for host in plan.hosts if host.answers and not port_of(host.name)]
        # Hosts that differ only in the TLS version share a filter chain, so they need no listener.
        has_listener = plan.is_stream or bool(plan.trusted) or plan.requires_sign_in
        chain = https_listener.INTERNAL if has_listener else tls_contexts.version_of(plan)
        listener = self._build_listener(plan)
        for host in hosts:
            yield self._build_part(host, chain, refuses_challenges=view.refuses_challenges(view.account, host))
            if has_listener:
                yield clusters.build_listener_cluster(host, listener.key.name)
        if hosts and has_listener:
            yield listener
        if plan.requires_sign_in:
            yield sign_in.build_extension(plan, self.public_keys)
        if plan.destinations.groups and plan.certificates:
            groups = [(id, weight, view.members(view.backends[id])) for id, weight in plan.destinations.groups]
            yield clusters.build_stream_cluster(plan, groups, self._link_authority, self._settings)

    def _build_listener(self, plan: Plan) -> Resource:
        if plan.edge.terminate_at == "upstream":
            return edge_listeners.build_upstream_listener(plan, self._settings)
        return edge_listeners.build_on_demand_listener(plan, self._settings)

    def _build_tunnel(self, plan: NamePlan) -> Iterator[Resource]:
        if plan.site is None:
            return
        tunnel = plan.site.tunnel
        yield listeners.build_tunnel_listener(tunnel, self._settings, plan.site.refusals)
        yield clusters.build_listener_cluster(plan.name, listeners.tunnel_name(tunnel.id))
        yield self._build_part(plan.name, https_listener.INTERNAL, refuses_challenges=plan.site.refuses_challenges)

    def _build_shields(self, plans: SpecialPlans) -> Iterator[Resource]:
        """Yield rules that exclude names from a special wildcard of the account.

        Other edges or tunnels serve these names. Each rule is a part of the listener's matcher, which selects a filter
        chain by server name.
        """
        for name in sorted(plans.below.union(*(plan.served_elsewhere for plan in plans.edges))):
            yield self._build_part(name, tls_contexts.DEFAULT_VERSION, refuses_challenges=True)

    def _build_part(self, name: str, chain: str, *, refuses_challenges: bool) -> Resource:
        if refuses_challenges:
            return https_listener.build_unreserved_special_part(name, chain, self._settings)
        return https_listener.build_special_part(name, chain, self._settings)


class _AccountResources:
    """The resources of each account.

    If several accounts have a resource with the same key, `find` returns the resource from the latest `put`.
    """

    def __init__(self) -> None:
        self._resources: dict[Key, dict[str, Resource]] = {}
        self._keys: dict[str, frozenset[Key]] = {}

    def put(self, account: str, resources: Iterable[Resource]) -> frozenset[Key]:
        """Replace the resources of an account. Return the keys of its former and its new resources."""
        before, new = self._keys.pop(account, frozenset[Key]()), {resource.key: resource for resource in resources}
        for key in before:
            del self._resources[key][account]
            if not self._resources[key]:
                del self._resources[key]
        for key, resource in new.items():
            self._resources.setdefault(key, {})[account] = resource
        if new:
            self._keys[account] = frozenset(new)
        return before.union(new)

    def find(self, key: Key) -> Resource | None:
        by_account = self._resources.get(key)
        return next(reversed(by_account.values())) if by_account else None
