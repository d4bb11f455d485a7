"""Accounts of the API with edges that answer with a status, on a host under the operator's certificate."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench import requests
from bench.edge_certificates import make_certificate
from chalicelib.operator import accounts


@dataclass(frozen=True)
class Served:
    """An edge, and the response that its only route gives."""

    name: str
    edge: str
    backend: str


class Tenant:
    """An account with a key of its API."""

    def __init__(self, name: str, domain: str) -> None:
        self.account, _, self.token = accounts.create_account(name, "admin")
        self._domain = domain

    def serve(self, label: str, body: str = "hello") -> Served:
        """Create an edge at a label below the domain. Its response has a body."""
        name = f"{label}.{self._domain}"
        backend = self.create("/backends/http_response", {"body": body})
        edge = self.create("/edges/https", {"hostports": [f"{name}:443"]})
        served = Served(name, edge, backend)
        self.add_route(served, "/")
        return served

    def add_route(self, served: Served, path: str, **modules: object) -> None:
        """Add a route with the same response for a path."""
        route = {"match_type": "path_prefix", "match": path, "backend": {"backend_id": served.backend}, **modules}
        self.create(f"/edges/https/{served.edge}/routes", route)

    def upload(self, name: str) -> None:
        """Create a certificate for a name."""
        chain, key = make_certificate(name)
        self.create("/tls_certificates", {"certificate_pem": chain, "private_key_pem": key})

    def change(self, served: Served, fields: Mapping[str, object]) -> None:
        """Change fields of an edge's response."""
        self._request("PATCH", f"/backends/http_response/{served.backend}", fields)

    def delete(self, served: Served) -> None:
        """Delete an edge."""
        self._request("DELETE", f"/edges/https/{served.edge}")

    def create(self, path: str, body: object) -> str:
        """Create a resource and return its id."""
        id: str = requests.create(path, self.token, body)["id"]
        return id

    def _request(self, method: str, path: str, body: object = None) -> None:
        requests.answer(requests.event(method, path, self.token, body))
