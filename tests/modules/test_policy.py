"""Policies of SSH authorities: each bound alone and all together, for users and hosts. `ssh-keygen` is the judge."""

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from chalicelib import clock, ids
from chalicelib.crypto import keys
from chalicelib.operator import owners
from chalicelib.operator.keys import issue_key
from tests import keypairs, samples
from tests.live.ssh.keygen import Certificate
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client

AUTHORITIES = "/ssh_certificate_authorities"
USERS, HOSTS = "/ssh_user_certificates", "/ssh_host_certificates"
POLICY = "as the policy of the authority requires"
NO_BOUNDS = {
    "backdate": 0,
    "default_lifetime": None,
    "max_lifetime": None,
    "allowed_principals": None,
    "require_principals": False,
    "allowed_key_types": None,
    "min_rsa_bits": None,
    "signers": None,
}
NO_USER_BOUNDS = {
    **NO_BOUNDS,
    "allowed_extensions": None,
    "default_extensions": None,
    "critical_options": None,
    "require_bind": False,
    "allowed_bind": None,
}
ALL = {
    "backdate": 30,
    "default_lifetime": 600,
    "max_lifetime": 3600,
    "allowed_principals": ["deploy-*", "ops"],
    "require_principals": True,
    "allowed_extensions": ["permit-pty", "permit-agent-forwarding"],
    "default_extensions": {"permit-agent-forwarding": ""},
    "critical_options": {"source-address": "192.0.2.0/24"},
    "allowed_key_types": ["ed25519"],
    "min_rsa_bits": 3072,
    "signers": ["bot_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"],
    "require_bind": True,
    "allowed_bind": ["bind:*.{user}.example.com", "bind:region=eu"],
}
ECDSA = keys.authorized_key(keys.generate_ecdsa("nistp256").public_key())
RSA_2048 = keys.authorized_key(keypairs.RSA.public_key())
AFTER, UNTIL = "2030-01-01T00:00:00Z", "2030-01-01T01:00:01Z"  # an hour and a second


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


@pytest.fixture
def path(authority: str) -> str:
    return f"{AUTHORITIES}/{authority}/policy"


def set_policy(client: Client, path: str, **policy: Any) -> None:
    answer = client.put(path, policy)
    assert answer.status == 200, answer.text


def build_request(authority: str, **fields: Any) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": samples.public_key(), **fields}


def test_a_policy_is_put_read_and_deleted_whole(admin: Client, path: str) -> None:
    expected = {"enabled": True, "user": ALL, "host": {**NO_BOUNDS, "max_lifetime": 60}}
    put = admin.put(path, {"user": ALL, "host": {"max_lifetime": 60}})
    assert (put.status, put.json) == (200, expected)
    assert admin.get(path).json == expected
    assert admin.put(path, {}).json == {"enabled": True, "user": None, "host": None}
    assert admin.put(path, {"user": {}}).json == {"enabled": True, "user": NO_USER_BOUNDS, "host": None}
    assert admin.delete(path).status == 204
    for method in ("GET", "DELETE"):
        assert_refused(admin.send(method, path), 404, "not_found", "The module policy is not set.")


def test_the_authority_does_not_show_its_policy(admin: Client, authority: str, path: str) -> None:
    before = admin.get(f"{AUTHORITIES}/{authority}").json
    set_policy(admin, path, user=ALL)
    assert admin.get(f"{AUTHORITIES}/{authority}").json == before


def test_an_authority_must_be_there(admin: Client, stranger: Client, path: str) -> None:
    set_policy(admin, path, user=ALL)
    assert stranger.get(path).status == 404
    id = ids.new("sshca")
    answer = admin.put(f"{AUTHORITIES}/{id}/policy", {})
    msg = f"There is no SSH certificate authority {id} in this account."
    assert_refused(answer, 404, "not_found", msg)
    assert stranger.put(path, {}).status == 404
    assert stranger.delete(path).status == 404
    assert admin.get(path).json["user"] == ALL


def test_only_admins_with_every_reach_see_and_change_it(admin: Client, member: Client, path: str) -> None:
    wide = ["ssh_certificate_authorities:read", "ssh_certificate_authorities:write"]
    narrow = admin.with_token(admin.create("/api_keys", {"scopes": wide})["token"])
    set_policy(admin, path, user=ALL)
    for method, body in (("PUT", {}), ("GET", None), ("DELETE", None)):
        msg = "Only an admin may see and change the policy of an authority."
        assert_refused(member.send(method, path, body), 403, "forbidden", msg)
        assert_refused(narrow.send(method, path, body), 403, "forbidden", "This API key lacks the scope *.")
    assert admin.get(path).json["user"] == ALL


@pytest.mark.parametrize(
    ("bounds", "faults"),
    [
        ({"default_lifetime": 2, "max_lifetime": 1}, {"user.max_lifetime": "must be at least default_lifetime"}),
        ({"backdate": 3601}, {"user.backdate": "must be at most 3600"}),
        ({"backdate": -1}, {"user.backdate": "must be at least 0"}),
        ({"max_lifetime": 0}, {"user.max_lifetime": "must be at least 1"}),
        ({"allowed_principals": []}, {"user.allowed_principals": "must not be empty"}),
        ({"allowed_principals": ["a", "a"]}, {"user.allowed_principals": "must not contain a value twice"}),
        ({"allowed_principals": ["a,b"]}, {"user.allowed_principals.0": "must not contain a comma"}),
        ({"min_rsa_bits": 1024}, {"user.min_rsa_bits": "must be at least 2048"}),
        ({"allowed_key_types": ["dsa"]}, {"user.allowed_key_types.0": "must be one of 'rsa', 'ecdsa' or 'ed25519'"}),
        (
            {"allowed_extensions": ["permit-pty"], "default_extensions": {"permit-user-rc": ""}},
            {"user.default_extensions": "must be in allowed_extensions, which lacks permit-user-rc"},
        ),
        (
            {"critical_options": {"source-address": "x"}},
            {"user.critical_options.source-address": "must be a comma-separated list of addresses or CIDR networks"},
        ),
    ],
)
def test_a_policy_that_means_nothing_is_refused(
    admin: Client, path: str, bounds: dict[str, Any], faults: dict[str, str]
) -> None:
    assert_invalid(admin.put(path, {"user": bounds}), faults)


# Each bound alone: what is refused under it, and what is not.
EACH: list[tuple[dict[str, Any], dict[str, Any], dict[str, str], dict[str, Any]]] = [
    (
        {"max_lifetime": 3600},
        {"valid_after": AFTER, "valid_until": UNTIL},
        {"valid_until": f"must be at most 3600 seconds after valid_after, or after now if that is later, {POLICY}"},
        {"valid_after": AFTER, "valid_until": "2030-01-01T01:00:00Z"},
    ),
    (
        {"allowed_principals": ["deploy-*", "ops"]},
        {"principals": ["deploy-1", "root", "ops2"]},
        dict.fromkeys(("principals.1", "principals.2"), f"must match deploy-* or ops, {POLICY}"),
        {"principals": ["deploy-", "deploy-web", "ops"]},
    ),
    (
        {"allowed_principals": ["deploy-*"]},
        {"principals": ["deploy-1,root"]},  # as two principals a server may read them
        {"principals.0": f"must not contain a comma, {POLICY}"},
        {"principals": ["deploy-1", "deploy-root"]},
    ),
    (
        {"allowed_principals": ["ops"]},
        {},
        {"principals": f"must contain at least one name, {POLICY}"},
        {"principals": ["ops"]},
    ),
    (
        {"require_principals": True},
        {"principals": []},
        {"principals": f"must contain at least one name, {POLICY}"},
        {"principals": ["anybody"]},
    ),
    (
        {"allowed_key_types": ["ed25519", "rsa"]},
        {"public_key": ECDSA},
        {"public_key": f"must be a key of type ed25519 or rsa, {POLICY}"},
        {"public_key": RSA_2048},
    ),
    (
        {"min_rsa_bits": 3072},
        {"public_key": RSA_2048},
        {"public_key": f"must be an RSA key of at least 3072 bits, {POLICY}"},
        {"public_key": ECDSA},
    ),
]


@pytest.mark.parametrize(("section", "kind"), [("user", USERS), ("host", HOSTS)])
@pytest.mark.parametrize(("bounds", "beyond", "faults", "within"), EACH)
def test_each_bound_holds_alone(
    admin: Client,
    authority: str,
    path: str,
    section: str,
    kind: str,
    bounds: dict[str, Any],
    beyond: dict[str, Any],
    faults: dict[str, str],
    within: dict[str, Any],
) -> None:
    set_policy(admin, path, **{section: bounds})
    assert_invalid(admin.post(kind, build_request(authority, **beyond)), faults)
    assert admin.post(kind, build_request(authority, **within)).status == 201
    other = HOSTS if kind == USERS else USERS
    assert admin.post(other, build_request(authority, **beyond)).status == 201
    set_policy(admin, path, enabled=False, **{section: bounds})
    assert admin.post(kind, build_request(authority, **beyond)).status == 201


KEYS = [samples.public_key(), ECDSA, RSA_2048]
EXTENSIONS = ["permit-pty", "permit-user-rc", "permit-agent-forwarding"]
OPTIONS = st.fixed_dictionaries(
    {}, optional={"source-address": st.sampled_from(["192.0.2.0/24", "::/0"]), "force-command": st.just("uptime")}
)
SHARED_BOUNDS = {
    "max_lifetime": st.sampled_from([1, 600, 86_400]),
    "allowed_principals": st.lists(st.sampled_from(["*", "ops", "{user}-*", "a*n"]), min_size=1, unique=True),
    "require_principals": st.booleans(),
    "allowed_key_types": st.lists(st.sampled_from(["rsa", "ecdsa", "ed25519"]), min_size=1, unique=True),
    "min_rsa_bits": st.sampled_from([2048, 4096]),
}
USER_BOUNDS = {
    **SHARED_BOUNDS,
    "allowed_extensions": st.lists(st.sampled_from(EXTENSIONS), unique=True),
    "critical_options": OPTIONS,
}
SHARED_REQUEST = {
    "public_key": st.sampled_from(KEYS),
    "principals": st.lists(st.sampled_from(["ops", "admin", "admin-1", "ops,root", "{user}"]), max_size=2),
}
TIMES = st.sampled_from(
    [{}, {"valid_after": AFTER, "valid_until": UNTIL}, {"valid_until": UNTIL}, {"valid_after": "2020-01-01T00:00:00Z"}]
)
USER_REQUEST = {
    **SHARED_REQUEST,
    "extensions": st.dictionaries(st.sampled_from([*EXTENSIONS, "x@example.com"]), st.just("")),
    "critical_options": st.none() | OPTIONS,
}


def draw_some(bounds: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return one or two of the bounds: with more of them hardly a certificate would be signed."""
    names = st.lists(st.sampled_from([*bounds]), min_size=1, max_size=2, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: bounds[name] for name in chosen}))


EVERY_REQUEST = st.one_of(
    st.tuples(st.just(USERS), draw_some(USER_BOUNDS), st.fixed_dictionaries(USER_REQUEST)),
    st.tuples(st.just(HOSTS), draw_some(SHARED_BOUNDS), st.fixed_dictionaries(SHARED_REQUEST)),
)


def beyond(certificate: SSHCertificate, bounds: dict[str, Any]) -> list[str]:
    """Return the bounds that a signed certificate breaks, as the library reads it."""
    names = [name.decode() for name in certificate.valid_principals]
    key = certificate.public_key()
    kind = {Ed25519PublicKey: "ed25519", EllipticCurvePublicKey: "ecdsa", RSAPublicKey: "rsa"}
    (key_type,) = [name for of, name in kind.items() if isinstance(key, of)]
    globs = [glob.replace("{user}", "admin") for glob in bounds.get("allowed_principals", ["*"])]
    critical_options = {name.encode(): value.encode() for name, value in bounds.get("critical_options", {}).items()}
    allowed_extensions = bounds.get("allowed_extensions")
    holds = {
        "max_lifetime": certificate.valid_before - max(certificate.valid_after, clock.seconds())
        <= bounds.get("max_lifetime", 2**40),
        "allowed_principals": all(any(fnmatchcase(name, glob) for glob in globs) for name in names)
        and ("allowed_principals" not in bounds or (bool(names) and "," not in "".join(names))),
        "require_principals": bool(names) or not bounds.get("require_principals"),
        "allowed_key_types": key_type in bounds.get("allowed_key_types", kind.values()),
        "min_rsa_bits": not isinstance(key, RSAPublicKey) or key.key_size >= bounds.get("min_rsa_bits", 0),
        "allowed_extensions": allowed_extensions is None
        or {*certificate.extensions} <= {name.encode() for name in allowed_extensions},
        "critical_options": critical_options.items() <= certificate.critical_options.items(),
    }
    return [name for name, is_kept in holds.items() if not is_kept]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVERY_REQUEST, TIMES)
def test_nobody_is_signed_a_certificate_beyond_the_policy_whatever_they_ask_for(
    admin: Client, authority: str, path: str, case: tuple[str, dict[str, Any], dict[str, Any]], times: Any
) -> None:
    kind, bounds, fields = case
    set_policy(admin, path, **{"user" if kind == USERS else "host": bounds})
    answer = admin.post(kind, {"ssh_certificate_authority_id": authority, **fields, **times})
    event(str(answer.status))
    assert answer.status in (201, 400), answer.text
    if answer.status == 201:
        signed_certificate = load_ssh_public_identity(answer.json["certificate"].encode())
        assert isinstance(signed_certificate, SSHCertificate)
        assert beyond(signed_certificate, bounds) == []


def test_a_change_of_its_authority_leaves_the_policy(admin: Client, authority: str, path: str) -> None:
    set_policy(admin, path, user=ALL)
    assert admin.patch(f"{AUTHORITIES}/{authority}", {"description": "new", "metadata": "too"}).status == 200
    assert admin.patch(f"{AUTHORITIES}/{authority}", {"policy": None}).status == 400
    assert admin.get(path).json["user"] == ALL


def test_what_is_repeated_was_signed_once_under_the_policy_of_its_time(
    admin: Client, authority: str, path: str
) -> None:
    body = build_request(authority, principals=["ops"])
    first = admin.send("POST", USERS, body, Idempotency_Key="k")
    set_policy(admin, path, user={"allowed_principals": ["deploy"]})
    again = admin.send("POST", USERS, body, Idempotency_Key="k")
    assert (first.status, again.status, again.json) == (201, 201, first.json)
    other = admin.send("POST", USERS, body, Idempotency_Key="other")
    assert_invalid(other, {"principals.0": f"must match deploy, {POLICY}"})


def test_extensions_are_the_allowed_ones(admin: Client, authority: str, path: str) -> None:
    set_policy(admin, path, user={"allowed_extensions": ["permit-pty"]})
    answer = admin.post(USERS, build_request(authority, extensions={"permit-pty": "", "permit-user-rc": ""}))
    assert_invalid(answer, {"extensions.permit-user-rc": f"must be one of permit-pty, {POLICY}"})
    assert admin.create(USERS, build_request(authority))["extensions"] == {"permit-pty": ""}
    set_policy(admin, path, user={"allowed_extensions": []})
    answer = admin.post(USERS, build_request(authority, extensions={"permit-pty": ""}))
    assert_invalid(answer, {"extensions.permit-pty": f"must be absent, {POLICY}"})
    assert Certificate.of(admin.create(USERS, build_request(authority))["certificate"]).extensions == {}


def test_critical_options_of_the_policy_are_in_every_certificate(admin: Client, authority: str, path: str) -> None:
    options = {"source-address": "192.0.2.0/24"}
    set_policy(admin, path, user={"critical_options": options})
    wider = {"source-address": "0.0.0.0/0", "force-command": "uptime"}
    answer = admin.post(USERS, build_request(authority, critical_options=wider))
    assert_invalid(answer, {"critical_options.source-address": f"must be absent or '192.0.2.0/24', {POLICY}"})
    more = {"force-command": "uptime"}
    for request_options, expected_options in (({}, options), (options, options), (more, {**options, **more})):
        certificate = admin.create(USERS, build_request(authority, critical_options=request_options))
        assert Certificate.of(certificate["certificate"]).critical_options == expected_options


@pytest.mark.parametrize(
    ("bounds", "seconds"),
    [({"default_lifetime": 600}, 600), ({"max_lifetime": 60}, 60), ({"default_lifetime": 5, "max_lifetime": 9}, 5)],
)
@pytest.mark.parametrize(("section", "kind"), [("user", USERS), ("host", HOSTS)])
def test_a_certificate_that_does_not_say_lives_as_the_policy_says(
    admin: Client, authority: str, path: str, section: str, kind: str, bounds: dict[str, int], seconds: int
) -> None:
    set_policy(admin, path, **{section: bounds})
    certificate = admin.create(kind, build_request(authority))
    start, end = (clock_of(certificate[name]) for name in ("valid_after", "valid_until"))
    assert end - start == seconds


@pytest.mark.parametrize(("section", "kind"), [("user", USERS), ("host", HOSTS)])
def test_a_certificate_that_names_no_start_begins_so_long_ago_as_the_policy_says(
    admin: Client, authority: str, path: str, section: str, kind: str
) -> None:
    for backdate in (None, 0, 60, 3600):
        set_policy(admin, path, **{section: {"backdate": backdate, "max_lifetime": 3600}})
        assert admin.get(path).json[section]["backdate"] == (backdate or 0)
        certificate = admin.create(kind, build_request(authority))
        created_at, start, end = (clock_of(certificate[name]) for name in ("created_at", "valid_after", "valid_until"))
        assert (created_at - start, end - created_at) == (backdate or 0, 3600)
        assert Certificate.of(certificate["certificate"]).valid == valid(certificate)
        late_certificate = admin.create(kind, build_request(authority, valid_after=certificate["created_at"]))
        assert late_certificate["valid_after"] == certificate["created_at"]
    set_policy(admin, path, enabled=False, **{section: {"backdate": 60}})
    certificate = admin.create(kind, build_request(authority))
    assert certificate["valid_after"] == certificate["created_at"]


def valid(certificate: Any) -> str:
    return f"from {certificate['valid_after']} to {certificate['valid_until']}".replace("Z", "")


@pytest.mark.parametrize(("section", "kind"), [("user", USERS), ("host", HOSTS)])
def test_a_certificate_of_five_minutes_ago_lives_as_long_as_one_of_now(
    admin: Client, authority: str, path: str, section: str, kind: str
) -> None:
    set_policy(admin, path, **{section: {"max_lifetime": 3600}})
    ago = clock.rfc3339(clock.now() - timedelta(minutes=5))
    certificate = admin.create(kind, build_request(authority, valid_after=ago))
    assert certificate["valid_after"] == ago
    assert clock_of(certificate["valid_until"]) - clock_of(certificate["created_at"]) == 3600
    late = clock.rfc3339(clock.now() + timedelta(seconds=3660))
    answer = admin.post(kind, build_request(authority, valid_after=ago, valid_until=late))
    rule = f"must be at most 3600 seconds after valid_after, or after now if that is later, {POLICY}"
    assert_invalid(answer, {"valid_until": rule})


def clock_of(text: str) -> int:
    return int(clock.parse(text).timestamp())


def test_all_bounds_hold_together(admin: Client, authority: str, path: str) -> None:
    set_policy(admin, path, user=ALL)
    beyond = {
        "public_key": ECDSA,
        "principals": ["root"],
        "extensions": {"permit-user-rc": ""},
        "critical_options": {"source-address": "::/0"},
        "valid_after": AFTER,
        "valid_until": UNTIL,
    }
    faults = {
        "valid_until",
        "public_key",
        "principals.0",
        "extensions.permit-user-rc",
        "critical_options.source-address",
    }
    answer = admin.post(USERS, build_request(authority, **beyond))
    assert answer.status == 400
    assert answer.json["details"].keys() == {*faults, "operation_id"}
    certificate = Certificate.of(admin.create(USERS, build_request(authority, principals=["deploy-1"]))["certificate"])
    assert certificate.principals == ["deploy-1"]
    assert certificate.extensions == {"permit-agent-forwarding": ""}
    assert certificate.critical_options == {"source-address": "192.0.2.0/24"}


def test_the_callers_name_is_taken_literally(admin: Client, authority: str, path: str) -> None:
    set_policy(admin, path, user={"allowed_principals": ["{user}", "{user}-*"]})
    user = owners.add_owner(admin.account, "usr", "a*", admin=False)
    caller = admin.with_token(issue_key(admin.account, user.id, "")[1])
    for principals in (["a*"], ["a*-1"]):
        assert caller.post(USERS, build_request(authority, principals=principals)).status == 201
    for principals in (["ab"], ["a"], ["admin"], ["{user}"], ["ab-1"]):
        answer = caller.post(USERS, build_request(authority, principals=principals))
        assert_invalid(answer, {"principals.0": f"must match {{user}} or {{user}}-*, {POLICY}"})
    assert admin.post(USERS, build_request(authority, principals=["admin"])).status == 201


def test_a_change_of_the_policy_is_an_event(admin: Client, authority: str, path: str) -> None:
    set_policy(admin, path, user=ALL)
    newest = admin.get("/audit_events?limit=1").json["audit_events"][0]
    assert (newest["action"], newest["resource_id"]) == ("ssh_certificate_authority.policy.replace", authority)
