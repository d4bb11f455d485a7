"""Edges by host, port, account, backend and authority, so that a change finds the affected ones. Pure."""

from chalicelib.model.edges.served import ServedBackend, ServedEdge
from chalicelib.model.edges.served import host_of as host_of
from chalicelib.model.edges.served import hosts_of as hosts_of
from chalicelib.model.edges.served import port_of as port_of
from chalicelib.model.serving import shares
from edge.plan.groups import Index


class EdgeIndex:
    """All edges, and the weighted backends that share traffic between other backends.

    An id belongs to one account, but other accounts' records may name it: lookups by id take the account too.
    """

    def __init__(self) -> None:
        self._by_host: Index[str, ServedEdge] = Index()
        self._by_account: Index[str, ServedEdge] = Index()
        self._by_named: Index[tuple[str, str], ServedEdge] = Index()
        self._parents: Index[tuple[str, str], ServedBackend] = Index()
        self._below: Index[str, str] = Index()  # hosts by parent domain
        self._by_port: Index[str, ServedEdge] = Index()
        self._of_tcp: Index[str, str] = Index()  # host:port names by host

    def put(self, fact: ServedEdge | ServedBackend) -> None:
        if isinstance(fact, ServedBackend):
            self._parents.put(_children(fact), fact.id, fact)
            return
        self._by_host.put(hosts_of(fact), fact.id, fact)
        self._by_account.put([fact.account], fact.id, fact)
        self._by_named.put(_named(fact), fact.id, fact)
        self._by_port.put(_ports(fact), fact.id, fact)
        for name in filter(port_of, hosts_of(fact)):
            self._of_tcp.put([host_of(name)], f"{fact.id}/{name}", name)
        for host in hosts_of(fact):
            self._below.put([host.partition(".")[2]], host, host)

    def drop(self, fact: ServedEdge | ServedBackend) -> None:
        if isinstance(fact, ServedBackend):
            self._parents.drop(_children(fact), fact.id)
            return
        self._by_host.drop(hosts_of(fact), fact.id)
        self._by_account.drop([fact.account], fact.id)
        self._by_named.drop(_named(fact), fact.id)
        self._by_port.drop(_ports(fact), fact.id)
        for name in filter(port_of, hosts_of(fact)):
            self._of_tcp.drop([host_of(name)], f"{fact.id}/{name}")
        for host in hosts_of(fact):
            if not self.edges_at_host(host):
                self._below.drop([host.partition(".")[2]], host)

    def edges_at_host(self, host: str) -> list[ServedEdge]:
        """Return the edges of all accounts that name a host, oldest first."""
        return [edge for _, edge in sorted(self._by_host.get(host).items())]

    def edges_at_port(self, port: str) -> list[ServedEdge]:
        """Return the TCP edges of all accounts that name a port, oldest first."""
        return [edge for _, edge in sorted(self._by_port.get(port).items())]

    def tcp_names_at(self, host: str) -> frozenset[str]:
        """Return the host:port names of TCP edges at a host."""
        return frozenset(self._of_tcp.get(host).values())

    def all_hosts(self) -> frozenset[str]:
        return frozenset(self._by_host)

    def hosts_below(self, domain: str) -> list[str]:
        """Return the edge hosts directly below a domain."""
        return sorted(self._below.get(domain))

    def hosts_of_account(self, account: str) -> frozenset[str]:
        return frozenset(host for edge in self._by_account.get(account).values() for host in hosts_of(edge))

    def edges_using(self, account: str, id: str) -> frozenset[str]:
        """Return the ids of an account's edges that use a backend or authority, also through weighted backends."""
        waiting, seen = [id], {id}
        for it in waiting:
            new = self._parents.get((account, it)).keys() - seen
            seen |= new
            waiting += new
        return frozenset(edge for it in seen for edge in self._by_named.get((account, it)))


def _ports(edge: ServedEdge) -> list[str]:
    return list(dict.fromkeys(port for name in hosts_of(edge) if (port := port_of(name))))


def _children(backend: ServedBackend) -> list[tuple[str, str]]:
    return [(backend.account, id) for id in shares.child_ids(backend)]


def _named(edge: ServedEdge) -> list[tuple[str, str]]:
    return [(edge.account, id) for id in edge.named]
