"""GET /federated_credentials/{id}/sign_in: public parameters, for anyone who knows the id of an enabled credential."""

from typing import Any

from chalicelib import ids
from tests.refusals import assert_not_found
from tests.transports import Client

PATH = "/federated_credentials"
GOOGLE = "https://accounts.google.com"


def fields(admin: Client, **more: Any) -> dict[str, Any]:
    defaults = {"issuer": GOOGLE, "claims": {"hd": "example.com"}, "scopes": ["edges:read"], "audiences": ["app"]}
    return {**defaults, "owner_id": admin.user, **more}


def test_anyone_reads_the_parameters(admin: Client) -> None:
    id = admin.create(PATH, fields(admin, sign_in={"client_id": "app", "client_secret": "public"}))["id"]
    nobody = admin.with_token("").with_version("")
    answer = nobody.get(f"{PATH}/{id}/sign_in")
    assert (answer.status, answer.json, answer.headers["cache-control"]) == (
        200,
        {
            "issuer": GOOGLE,
            "client_id": "app",
            "client_secret": "public",
            "scopes": ["openid", "email"],
            "audience": id,
        },
        "no-cache",
    )
    again = nobody.send("GET", f"{PATH}/{id}/sign_in", If_None_Match=answer.headers["etag"])
    assert (again.status, again.text) == (304, "")


def test_what_nobody_can_sign_in_with_is_not_there(admin: Client) -> None:
    nobody = admin.with_token("").with_version("")
    unset = admin.create(PATH, fields(admin))["id"]
    disabled = admin.create(PATH, fields(admin, sign_in={"client_id": "app"}, enabled=False))["id"]
    credential_id = admin.create(PATH, fields(admin, sign_in={"client_id": "app"}))["id"]
    assert nobody.get(f"{PATH}/{credential_id}/sign_in").status == 200
    assert admin.patch(f"{PATH}/{credential_id}", {"sign_in": {}}).json["sign_in"] is None
    for id in (unset, disabled, credential_id, ids.new("fcred"), ids.new("ak"), "a"):
        assert_not_found(nobody.get(f"{PATH}/{id}/sign_in"), PATH)
