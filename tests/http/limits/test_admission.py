"""The limits of requests, from outside: 429, its headers, the reserve, and what each limit counts."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.authorizer import authorize
from chalicelib.model.limits.counters import OF_PROCESS
from chalicelib.operator import commands, keys
from tests import gateway, samples
from tests.queries import calls
from tests.refusals import assert_refused
from tests.transports import Answer, Client

KEYS, EVENTS = "/api_keys", "/audit_events"
ACCOUNT = "Your account sends too many requests: try again after the time in Retry-After."


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    OF_PROCESS.forget()
    yield
    OF_PROCESS.forget()


def limit(client: Client, *options: str) -> None:
    commands.main(["accounts", "limits", client.account, *options])
    OF_PROCESS.forget()


def headers(answer: Answer) -> tuple[str | None, str | None]:
    return answer.headers.get("ratelimit-policy"), answer.headers.get("ratelimit")


def flood(client: Client, path: str = "/users/usr_x") -> Answer:
    """Send requests until one is refused."""
    return next(answer for answer in iter(lambda: client.get(path), None) if answer.status == 429)


def test_without_a_limit_there_are_no_headers(admin: Client) -> None:
    assert headers(admin.get(KEYS)) == (None, None)


def test_every_authenticated_response_has_the_limits_of_its_account_and_key(admin: Client) -> None:
    limit(admin, "--requests-per-second", "200")
    assert headers(admin.get(KEYS)) == ('"account";q=200;w=1', '"account";r=199;t=1')
    limited = admin.with_token(admin.create(KEYS, {"limits": {"requests_per_second": 10, "burst": 25}})["token"])
    for answer in (
        limited.get(KEYS),
        limited.get("/users/nonsense"),
        limited.post(KEYS, b"{"),
        limited.send("GET", KEYS, **{"Service-Version": "9"}),
    ):
        policy, rate_limit = headers(answer)
        assert policy == '"account";q=200;w=1, "key";q=30;w=3'
        assert rate_limit is not None
        assert '"account";r=19' in rate_limit


def test_too_many_requests_are_refused_right_after_the_token(admin: Client, stranger: Client) -> None:
    limit(admin, "--requests-per-second", "2", "--burst", "4")
    refusal = flood(admin)
    assert_refused(refusal, 429, "rate_limited", ACCOUNT)
    assert refusal.headers["retry-after"] == "1"
    assert headers(refusal) == ('"account";q=4;w=2', '"account";r=0;t=2')
    assert admin.send("GET", EVENTS, **{"Service-Version": "9"}).status == 429
    assert admin.post("/backends/weighted", b"{").status == 429
    assert_refused(
        admin.with_token(f"{admin.token[:-1]}_").get(KEYS), 401, "unauthenticated", _send_unknown_token(admin)
    )
    assert stranger.get(KEYS).status == 200


def _send_unknown_token(client: Client) -> str:
    return str(client.with_token(f"{client.token[:-1]}_").get(KEYS).json["msg"])


def test_a_leaked_key_that_floods_can_still_be_ended(admin: Client, member: Client) -> None:
    new_key = admin.create(KEYS, {})
    leaked = admin.with_token(new_key["token"])
    limit(admin, "--requests-per-second", "1")
    flood(leaked)
    flood(leaked, "/me")  # it uses up the reserve of its own key too
    assert admin.get("/me").status == 200
    assert new_key["id"] in [key["id"] for key in admin.get(KEYS).json["keys"]]
    assert admin.patch(f"/users/{member.user}", {"active": False}).status == 200
    assert admin.delete(f"{KEYS}/{new_key['id']}").status == 204
    assert leaked.get("/me").status == 401


def test_the_operator_is_not_limited(admin: Client) -> None:
    limit(admin, "--requests-per-second", "1")
    flood(admin)
    for _ in range(3):
        keys.issue_key(admin.account, admin.user, "an operator's")


def test_the_deployment_has_defaults_that_an_account_can_be_freed_from(
    admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNT_REQUESTS_PER_SECOND", "3")
    monkeypatch.setenv("ACCOUNT_BURST", "6")
    assert headers(admin.get(KEYS)) == ('"account";q=6;w=2', '"account";r=5;t=1')
    limit(admin, "--requests-per-second", "0")
    assert headers(admin.get(KEYS)) == (None, None)
    assert headers(stranger.get(KEYS))[0] == '"account";q=6;w=2'


def test_a_key_of_an_account_with_limits_has_them_from_its_creation(admin: Client) -> None:
    limit(admin, "--requests-per-second", "7", "--certificates-per-second", "3")
    client = admin.with_token(admin.create(KEYS, {})["token"])
    limits = client.get("/me").json["limits"]
    assert limits == {
        "account": {"per_second": 7, "burst": 7, "remaining": limits["account"]["remaining"]},
        "key": None,
        "certificates": {"per_second": 3, "burst": 6, "remaining": 6},
        "events": None,
    }
    assert limits["account"]["remaining"] < 7


def test_certificates_and_events_have_limits_of_their_own(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    limit(admin, "--certificates-per-second", "1", "--events-per-second", "60")
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}
    answers = [admin.post("/ssh_user_certificates", body) for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 429]
    assert (
        answers[2].json["msg"] == "Your account signs too many certificates: try again after the time in Retry-After."
    )
    assert headers(answers[0])[0] == '"certificates";q=2;w=2'
    statuses = [admin.get(f"{EVENTS}{query}").status for query in ("?limit=20", "", "")]
    assert statuses == [200, 200, 429]
    OF_PROCESS.forget()
    filtered = [admin.get(f"{EVENTS}?action=user.create&limit=1").status for _ in range(2)]
    assert filtered == [200, 429]
    assert admin.get(KEYS).status == 200


def test_a_usual_request_makes_no_further_call_of_the_store(admin: Client) -> None:
    with calls() as before:
        admin.get(KEYS)
    limit(admin, "--requests-per-second", "100", "--events-per-second", "100")
    with calls() as after:
        admin.get(KEYS)
    assert after == before


def test_requests_without_a_valid_token_count_for_their_address(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDRESS_REJECTIONS_PER_SECOND", "1")
    limit(admin, "--requests-per-second", "100")
    other = "1" if admin.token[-7] == "0" else "0"
    unknown = {"Authorization": f"Bearer {admin.token[:-7]}{other}{admin.token[-6:]}", "Service-Version": "2"}
    assert _flood(unknown, "192.0.2.1") == ["Unauthorized"] * 10 + ["Deny"]
    assert _flood(unknown, "2001:db8::1") == ["Unauthorized"] * 10 + ["Deny"]
    assert _decide(unknown, "2001:db8::ffff") == "Deny"
    assert _decide(unknown, "2001:db8:0:1::1") == "Unauthorized"
    valid = {"Authorization": f"Bearer {admin.token}", "Service-Version": "2"}
    assert _decide(valid, "192.0.2.1") == "Allow"
    assert headers(admin.get(KEYS))[1] == '"account";r=99;t=1'
    refusal = [admin.with_token("nonsense").get(KEYS) for _ in range(11)][-1]
    assert_refused(
        refusal,
        429,
        "rate_limited",
        "Your address sends too many requests without a valid token: try again after the time in Retry-After.",
    )


def _flood(headers: dict[str, str], address: str) -> list[str]:
    return [_decide(headers, address) for _ in range(11)]


def _decide(headers: dict[str, str], address: str) -> str:
    event = gateway.event("GET", KEYS, headers, identity={"sourceIp": address})
    try:
        return str(authorize(event, None)["policyDocument"]["Statement"][0]["Effect"])
    except Exception as error:
        return str(error)


def test_behind_the_gateway_the_authorizer_passes_the_limits_on(admin: Client) -> None:
    limit(admin, "--requests-per-second", "9")
    key = admin.create(KEYS, {"limits": {"requests_per_second": 4}})
    request_headers = {"Authorization": f"Bearer {key['token']}", "Service-Version": "2"}
    context: dict[str, Any] = authorize(gateway.event("GET", KEYS, request_headers), None)["context"]
    assert all(isinstance(value, str) for value in context.values())
    OF_PROCESS.forget()
    answer = gateway.answer(gateway.event("GET", KEYS, request_headers, authorizer=context))
    assert headers(answer) == ('"account";q=9;w=1, "key";q=4;w=1', '"account";r=8;t=1, "key";r=3;t=1')


def test_what_has_a_reserve_is_a_route() -> None:
    from chalicelib.http.limits import admission
    from chalicelib.routes import ALL

    routes = {(endpoint.method, endpoint.path) for route in ALL for endpoint in route.endpoints()}
    assert routes >= admission.RESERVED
    assert {template for _, template in routes} >= admission.CERTIFICATES | {admission.EVENTS}
