"""Bounds of what an authority signs: no request gets a certificate beyond them, whatever it asks for."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.crypto import keys
from chalicelib.crypto.ssh_certificates import UserCertificate
from chalicelib.model.ssh import policies
from chalicelib.model.ssh.policies import PolicyBounds, PolicyModule

KEY = keys.generate_ed25519().public_key()
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ["permit-pty", "permit-user-rc", "permit-agent-forwarding"]
POLICY = "as the policy of the authority requires"
seconds = st.none() | st.integers(1, 7200)
texts = st.text("ab*{},user", max_size=6)
extensions = st.dictionaries(st.sampled_from(NAMES), st.just(""))
options = st.dictionaries(st.sampled_from(["source-address", "force-command"]), st.sampled_from(["x", "y"]))


def within(bounds: PolicyBounds) -> PolicyBounds:
    """Bounds as a policy has them: its default extensions are among the allowed ones."""
    allowed, default = bounds.allowed_extensions, bounds.default_extensions
    if allowed is None or default is None:
        return bounds
    return replace(bounds, default_extensions={name: "" for name in default if name in allowed})


bounds = st.builds(
    PolicyBounds,
    backdate=st.integers(0, 3600),
    default_lifetime=seconds,
    max_lifetime=seconds,
    allowed_principals=st.none() | st.lists(texts | st.just("{user}"), min_size=1),
    require_principals=st.booleans(),
    allowed_extensions=st.none() | st.lists(st.sampled_from(NAMES)),
    default_extensions=st.none() | extensions,
    critical_options=st.none() | options,
    allowed_key_types=st.none() | st.lists(st.sampled_from(["rsa", "ed25519"]), min_size=1),
    min_rsa_bits=st.none(),
).map(within)


def certificate(
    bounds: PolicyBounds, principals: list[str], length: int | None, extensions: Any, critical: Any
) -> UserCertificate:
    """Return the certificate that would be signed for a request."""
    lives = timedelta(seconds=length) if length else policies.default_lifetime(bounds, timedelta(hours=24))
    return UserCertificate(
        key_id="sucrt_1",
        serial=1,
        public_key=KEY,
        principals=principals,
        valid_after=NOW,
        valid_until=NOW + lives,
        critical_options=policies.merge_critical_options(bounds, critical),
        extensions=policies.choose_extensions(bounds, extensions),
    )


@given(bounds, st.lists(texts), seconds, extensions, options)
def test_what_passes_is_within_every_bound(
    bounds: PolicyBounds,
    principals: list[str],
    length: int | None,
    extensions: dict[str, str],
    critical: dict[str, str],
) -> None:
    candidate = certificate(bounds, principals, length, extensions, critical)
    if policies.find_violations(bounds, candidate, "a*", NOW):
        return
    assert (
        bounds.max_lifetime is None
        or (candidate.valid_until - candidate.valid_after).total_seconds() <= bounds.max_lifetime
    )
    assert principals or not (bounds.require_principals or bounds.allowed_principals)
    if bounds.allowed_principals is not None:
        assert not any("," in principal for principal in principals)
        globs = [pattern.replace("{user}", "a\N{NULL}") for pattern in bounds.allowed_principals]
        literal = [principal.replace("a*", "a\N{NULL}") for principal in principals]
        for raw, principal in zip(principals, literal, strict=True):
            assert any(fnmatchcase(text, glob) for glob in globs for text in (raw, principal))
    assert bounds.allowed_extensions is None or {*candidate.extensions} <= {*bounds.allowed_extensions}
    assert (bounds.critical_options or {}).items() <= candidate.critical_options.items()
    assert bounds.allowed_key_types is None or "ed25519" in bounds.allowed_key_types


@given(bounds)
def test_a_request_that_asks_for_nothing_is_refused_for_its_key_and_principals_alone(bounds: PolicyBounds) -> None:
    wrong = policies.find_violations(bounds, certificate(bounds, [], None, {}, {}), "ada", NOW)
    assert {*wrong} <= {"public_key", "principals"}


@pytest.mark.parametrize(
    ("pattern", "caller", "principal", "matches"),
    [
        ("ops", "ada", "ops", True),
        ("ops", "ada", "ops2", False),
        ("*", "ada", "", True),
        ("a*a", "ada", "a", False),
        ("a*a", "ada", "aa", True),
        ("*.example.com", "ada", "db.example.com", True),
        ("*.example.com", "ada", "example.com", False),
        ("a*b*c", "ada", "a-b-b-c", True),
        ("a*b*c", "ada", "a-c-b", False),
        ("[a]", "ada", "a", False),
        ("a.", "ada", "ab", False),
        ("{user}", "ada", "ada", True),
        ("{user}-*", "ada", "ada-1", True),
        ("{user}", "a*", "ab", False),
        ("{user}", "a*", "a*", True),
        ("{user}", "{user}", "{user}", True),
        ("*", "ada", "a,root", False),
        ("{user}", "a,root", "a,root", False),
        ("{user}", None, "", False),
        ("x{user}", None, "x", False),
    ],
)
def test_a_pattern_has_stars_and_the_callers_name_and_nothing_else(
    pattern: str, caller: str | None, principal: str, matches: bool
) -> None:
    bounds = PolicyBounds(allowed_principals=[pattern])
    wrong = policies.find_violations(bounds, certificate(bounds, [principal], None, {}, {}), caller, NOW)
    assert ("principals.0" not in wrong) is matches


def test_of_many_patterns_an_error_lists_the_first_ten() -> None:
    bounds = PolicyBounds(allowed_principals=[f"p{number}" for number in range(256)])
    (rule,) = policies.find_violations(bounds, certificate(bounds, ["x"], None, {}, {}), "ada", NOW).values()
    assert rule == f"must match {' or '.join(f'p{number}' for number in range(10))} or …, {POLICY}"


def test_many_stars_are_not_slow() -> None:
    bounds = PolicyBounds(allowed_principals=["*a" * 120 + "b"])
    wrong = policies.find_violations(bounds, certificate(bounds, ["a" * 255] * 256, None, {}, {}), "ada", NOW)
    assert len(wrong) == 256


@pytest.mark.parametrize(
    ("starts", "ends", "is_kept"),  # seconds from now on
    [
        (0, 60, True),
        (0, 61, False),
        (-300, 60, True),
        (-300, 61, False),
        (-300, -1, True),
        (30, 90, True),
        (30, 91, False),
    ],
)
def test_a_lifetime_is_bounded_from_the_later_of_its_start_and_now(starts: int, ends: int, is_kept: bool) -> None:
    bounds = PolicyBounds(max_lifetime=60)
    after, until = (NOW + timedelta(seconds=seconds) for seconds in (starts, ends))
    candidate = replace(certificate(bounds, [], None, {}, {}), valid_after=after, valid_until=until)
    rule = f"must be at most 60 seconds after valid_after, or after now if that is later, {POLICY}"
    assert policies.find_violations(bounds, candidate, None, NOW) == ({} if is_kept else {"valid_until": rule})


@given(st.none() | bounds, st.none() | bounds, st.booleans())
def test_a_policy_is_read_as_it_was_stored(user: PolicyBounds | None, host: PolicyBounds | None, enabled: bool) -> None:
    policy = PolicyModule(enabled=enabled, user=user, host=host)
    assert PolicyModule.of(policy.to_record()) == policy
    assert asdict(policy).keys() == {"enabled", "user", "host"}
