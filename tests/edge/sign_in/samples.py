"""A rule of a route, a session of it, and modules as requests have them."""

from typing import Any

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session

RULE = SignInRule("github", "digest", "acct_1", "edghts_1", "edghtsrt_abcdef", client_id="app")
SESSION = Session(
    account="acct_1",
    edge="edghts_1",
    route="edghtsrt_abcdef",
    provider="github",
    client_id="app",
    cookie_prefix="service.",
    subject="1",
    addresses=["ada@example.com"],
    signed_in_at=1000,
    seen_at=1000,
    checked_at=1000,
)
_LISTS = ("email_addresses", "email_domains", "teams", "organizations")


def module(name: str = "google", **fields: Any) -> dict[str, Any]:
    """Return a module with an application at a provider. Lists and scopes belong to the provider."""
    module_fields = {
        key: fields.pop(key) for key in list(fields) if key not in (*_LISTS, "scopes", "client_id", "client_secret")
    }
    return {"provider": {name: {"client_id": "app", "client_secret": "very secret", **fields}}, **module_fields}
