"""What Schemathesis is taught of this API: what a body names must be there, and some fields must go together.

JSON Schema does not say either. Only cases that are meant to be accepted are mended; the others are sent as they are.
It tries the served document with what docs/conventions.md tolerates beyond it: all of that is accepted, and no more.
"""

import os
import secrets
from typing import Any

import httpx
import schemathesis
from schemathesis.generation import GenerationMode

from tests import tolerance
from tests.fuzz import formats

Body = dict[str, Any]

formats.register()

_API = httpx.Client(
    base_url=os.environ["BASE_URL"],
    headers={"Authorization": f"Bearer {os.environ['API_KEY']}", "Service-Version": "2"},
    trust_env=False,
)
_KEY = _API.get("/api_keys/self").raise_for_status().json()
_AUTHORITY = _API.post("/ssh_certificate_authorities", json={}).raise_for_status().json()
_IP_POLICY = _API.post("/ip_policies", json={}).raise_for_status().json()
_KEPT = {_KEY["id"], _AUTHORITY["id"], _IP_POLICY["id"]}  # never deleted, nor bounded by a policy: the run needs them


def _owner(body: Body) -> None:
    if body.get("owner_id"):
        body["owner_id"] = _KEY["owner_id"]


def _key_type(body: Body) -> None:
    """Leave out a curve that is not for ecdsa and a size that is not for rsa."""
    if body.get("private_key_type") != "ecdsa":
        body.pop("elliptic_curve", None)
    if body.get("private_key_type") != "rsa":
        body.pop("key_size", None)


def _certificate(body: Body) -> None:
    """Name an authority that is there, times of which the first is earlier, and no values that OpenSSH refuses."""
    if "ssh_certificate_authority_id" in body:
        body["ssh_certificate_authority_id"] = _AUTHORITY["id"]
    for name in (body.get("extensions") or {}).keys() & {"permit-pty", "permit-user-rc"}:
        body["extensions"][name] = ""
    for name, century in {
        "valid_after": "20",
        "valid_until": "24",
        "expires_at": "24",
    }.items():  # both know a 29th of February in 00
        if body.get(name):
            body[name] = century + body[name][2:]
    if body.get("valid_after") and not body.get("valid_until"):
        body["valid_until"] = "2400-01-01T00:00:00Z"


def _headers(body: Body) -> None:
    """Leave out headers that are there already, in whatever case."""
    if body.get("headers"):
        body["headers"] = {name.lower(): value for name, value in body["headers"].items()}


def _header_changes(body: Body) -> None:
    """Change each header once, with values that together fit the module."""
    for module in (body.get("request_headers"), body.get("response_headers"), body):
        if module and isinstance(module.get("add"), dict):
            module["add"] = {name.lower(): value[:200].strip() for name, value in module["add"].items()}
        if module and isinstance(module.get("remove"), list):
            module["remove"] = sorted({name.lower() for name in module["remove"]})


def _managed_certificate(body: Body) -> None:
    """Name a certificate or a policy for automatic ones: a domain has one of them."""
    if body.get("certificate_management_policy"):
        body.pop("certificate_id", None)


def _ip_policy(body: Body) -> None:
    """Name a policy that is there, with an action, which this one does not have."""
    if "ip_policy_id" in body:
        body["ip_policy_id"] = _IP_POLICY["id"]
        body["action"] = body.get("action") or "allow"


def _hostports(body: Body) -> None:
    if body.get("hostports"):
        body["hostports"] = sorted({hostport.lower() for hostport in body["hostports"]})


def _termination(body: Body) -> None:
    """End TLS at every edge: another place is refused beside a least version, or in the module alone."""
    for fields in (body, body.get("tls_termination") or {}):
        if fields.get("terminate_at") == "upstream":
            fields["terminate_at"] = "edge"


def _one_provider(body: Body) -> None:
    """Keep one provider, with both halves of an app or neither."""
    module = body.get("oauth") or body
    if isinstance(module.get("provider"), dict):
        providers = [(name, provider) for name, provider in module["provider"].items() if provider is not None]
        name, provider = providers[0] if providers else ("google", {})
        if not (provider.get("client_id") and provider.get("client_secret")):
            provider = {n: v for n, v in provider.items() if n not in ("client_id", "client_secret", "scopes")}
        module["provider"] = {name: provider}


def _one_sign_in(body: Body) -> None:
    """Keep OAuth or passwords: a route has one of them."""
    if body.get("oauth"):
        body.pop("basic_auth", None)


def _passwords(body: Body) -> None:
    """Name each user of a list of passwords once."""
    module = body.get("basic_auth") or body
    if isinstance(module.get("credentials"), list):
        module["credentials"] = [
            *{credential.get("username"): credential for credential in module["credentials"]}.values()
        ]


def _make_room(case: Any) -> None:
    """Remove the passwords of a route before its OAuth is set, and the other way."""
    parent, _, name = case.path.format(**(case.path_parameters or {})).rpartition("/")
    if case.method == "PUT" and "/routes/" in parent and name in ("oauth", "basic_auth"):
        _API.delete(f"{parent}/{'oauth' if name == 'basic_auth' else 'basic_auth'}")


def _webhook(body: Body) -> None:
    """Give Svix a secret of its form."""
    module = body.get("webhook_verification") or body
    if module.get("provider") == "SVIX":
        module["secret"] = "whsec_c2VjcmV0"


def _bounds(body: Body) -> None:
    """Raise a longest lifetime below the default one, and allow just the default extensions where some are allowed."""
    for bounds in (body.get("user"), body.get("host")):
        if bounds and bounds.get("default_lifetime") and bounds.get("max_lifetime"):
            bounds["max_lifetime"] = max(bounds["default_lifetime"], bounds["max_lifetime"])
        if bounds and bounds.get("default_extensions") and bounds.get("allowed_extensions") is not None:
            bounds["allowed_extensions"] = list(bounds["default_extensions"])


def _normalize(value: Any) -> Any:
    """Whole numbers without a fraction, and long texts in no more bytes than characters, as x-max-bytes counts."""
    match value:
        case dict():
            return {_normalize(name): _normalize(field) for name, field in value.items()}
        case list():
            return [_normalize(entry) for entry in value]
        case float() if value.is_integer():
            return int(value)
        case str() if len(value.encode()) > 255:  # the least limit
            return value.encode()[: max(255, len(value))].decode(errors="ignore")
    return value


def _one_subject(body: Body) -> None:
    """Exactly one of what a revocation may name, and no certificate: the authority must have signed it."""
    for name in ("ssh_user_certificate_id", "ssh_host_certificate_id"):
        body.pop(name, None)
    subjects = [name for name, value in body.items() if name != "reason" and value]
    for name in subjects[1:]:
        del body[name]
    if not subjects:
        body["serial"] = str(1 + secrets.randbelow(2**63))


_REPAIRS = (
    _owner,
    _key_type,
    _certificate,
    _headers,
    _header_changes,
    _managed_certificate,
    _ip_policy,
    _hostports,
    _termination,
    _one_provider,
    _one_sign_in,
    _passwords,
    _webhook,
    _bounds,
)


@schemathesis.hook
def before_load_schema(_context: Any, document: Body) -> None:
    """Widen the document by what is tolerated."""
    document.update(tolerance.widen(document))


@schemathesis.hook
def before_call(_context: Any, case: Any, _options: Any) -> None:
    """Make a case that is meant to be accepted one that can be, and keep any from ending the run's own key."""
    path = case.path_parameters or {}
    if case.method in ("DELETE", "PUT") and path.get("id") in _KEPT:
        path["id"] = f"{path['id'].partition('_')[0]}_{'0' * 27}"
    if not case.meta or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    headers = case.headers or {}
    for name in ("If-Match", "If-None-Match"):
        headers.pop(name, None)  # no generated ETag is that of a resource: all would be refused with a 412
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = secrets.token_hex()  # a key of an earlier case would be refused with a 409
    if "action" in (case.query or {}):
        case.query["action"] = "ip_policy.*"  # an action is of a kind that has events
    _make_room(case)
    if isinstance(case.body, dict):
        case.body = _normalize(case.body)
        for repair in _REPAIRS if not case.path.endswith("/revocations") else (_one_subject,):
            repair(case.body)
