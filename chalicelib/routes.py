"""All routes of the API: of every resource, edge and module, of the document of them, and of the page that shows it."""

from chalicelib import docs, edges, modules, openapi, resources
from chalicelib.http.endpoints import Routes
from chalicelib.model import accounts, kinds
from chalicelib.model.migrations import Forms
from chalicelib.resources import ssh_trust

DOCUMENTED: tuple[Routes, ...] = (*resources.ALL, ssh_trust.TRUST, *edges.ALL, *modules.ALL, openapi.DOCUMENT)
ALL: tuple[Routes, ...] = (*DOCUMENTED, docs.DOCS)  # a page for people has no place in the document


def forms() -> Forms:
    """Return what is stored of each kind, the two that no endpoint makes included."""
    own = {kinds.ACCOUNTS: accounts.Account, kinds.USERS: accounts.User}
    served = {resource.kind: resource for resource in (*resources.ALL, *edges.ALL)}
    return Forms(
        {**own, **{kind: resource.stored for kind, resource in served.items()}},
        {kind: {module.name: module.stored for module in modules.of(kind)} for kind in served},
    )
