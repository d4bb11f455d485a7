"""The headers that an edge or a reserved domain lets visitors send, `keep_headers`: the same rules for both."""

import pytest

from tests.refusals import assert_invalid
from tests.transports import Client

HOLDERS = {"/edges/https": {}, "/reserved_domains": {"domain": "shop.example.com"}}
each_holder = pytest.mark.parametrize(("path", "body"), HOLDERS.items())


@each_holder
def test_headers_are_shown_in_lower_case_and_only_if_there_are_some(
    admin: Client, path: str, body: dict[str, str]
) -> None:
    plain = admin.create(path, body)
    assert "keep_headers" not in plain
    address = f"{path}/{plain['id']}"
    edge = admin.patch(address, {"keep_headers": ["X-User", "Via", "x-user"]}).json
    assert edge == {**plain, "keep_headers": ["x-user", "via"]}
    assert admin.get(address).json == edge
    assert admin.patch(address, {"description": "new"}).json == {**edge, "description": "new"}
    assert admin.patch(address, {"description": "", "keep_headers": []}).json == plain
    assert admin.patch(address, {"keep_headers": None}).json == plain


@each_holder
def test_what_the_edge_says_itself_cannot_be_kept(admin: Client, path: str, body: dict[str, str]) -> None:
    rule = "must not be a connection header, Proxy, Forwarded, X-Forwarded-…, X-Envoy-… or Tunnel-Auth-…"
    form = "must be the name of a header, of 64 characters at most"
    rules = {
        "X-Forwarded-For": rule,
        "x_forwarded_user": rule,
        "Forwarded": rule,
        "X-Envoy-Retry-On": rule,
        "Tunnel-Auth-User-Email": rule,
        "tunnel_auth.provider": rule,
        "Proxy": rule,
        "Connection": rule,
        "": form,
        "x user": form,
        "x:user": form,
        "é": form,
        "x" * 65: form,
    }
    answer = admin.post(path, {**body, "keep_headers": ["x-user", *rules]})
    assert_invalid(answer, {f"keep_headers.{index}": rule for index, rule in enumerate(rules.values(), 1)})
    names = [f"x-{number}" for number in range(21)]
    assert_invalid(admin.post(path, {**body, "keep_headers": names}), {"keep_headers": "must have at most 20 entries"})
