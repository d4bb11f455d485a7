"""Every refusal that a client can bring about: its whole body, its headers, and the order in which they are decided."""

from collections.abc import Callable

from chalicelib import ids
from tests.contract import cases
from tests.contract.answers import NOT_FOUND, UNAUTHENTICATED, Refused
from tests.contract.cases import Case, parametrize
from tests.samples import public_key
from tests.transports import Answer, Client

Check = Callable[[Case, Answer], None]


@parametrize(cases.UNKNOWN_PATHS)
def test_a_path_that_is_not_there_is_no_route_whoever_asks(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client.with_token("")))


@parametrize(cases.OTHER_METHODS)
def test_a_method_that_a_path_does_not_have_is_not_allowed_whoever_asks(
    client: Client, check: Check, case: Case
) -> None:
    check(case, case.ask(client.with_token("")))


@parametrize(cases.BAD_TOKENS)
def test_a_request_without_a_good_token_is_not_authenticated_whatever_else_it_lacks(
    client: Client, check: Check, case: Case
) -> None:
    check(case, case.ask(client.with_token("")))


@parametrize(cases.VERSIONS)
def test_a_request_is_of_a_supported_version_before_it_is_read(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client))


@parametrize(cases.BAD_BODIES)
def test_a_body_that_is_not_one_json_object_is_refused(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client))


@parametrize(cases.BAD_FIELDS)
def test_every_bad_field_is_named_at_once(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client))


@parametrize(cases.QUERIES)
def test_a_query_obeys_its_rules(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client))


@parametrize(cases.ODD_PATHS)
def test_an_odd_path_is_answered_as_any_other(client: Client, check: Check, case: Case) -> None:
    check(case, case.ask(client))


def test_a_deleted_key_no_longer_lets_in(client: Client) -> None:
    key = client.create("/api_keys", {})
    bearer = client.with_token(key["token"])
    assert bearer.get("/api_keys").status == 200
    assert client.delete(f"/api_keys/{key['id']}").status == 204
    UNAUTHENTICATED.check(bearer.get("/api_keys"))


def test_an_id_in_a_body_that_names_nothing_is_an_unknown_reference(client: Client) -> None:
    field = "ssh_certificate_authority_id"
    answer = client.post("/ssh_user_certificates", {field: ids.new("sshca"), "public_key": public_key()})
    rule = {field: "must be an id listed at /ssh_certificate_authorities"}
    Refused(400, "unknown_reference", rule).check(answer)


def test_what_only_an_admin_may_do_is_forbidden_to_a_bot(client: Client) -> None:
    bot, other = (client.create("/bot_users", {"name": ids.new("contract")}) for _ in range(2))
    bearer = client.with_token(client.create("/api_keys", {"owner_id": bot["id"]})["token"])
    assert bearer.create("/api_keys", {})["owner_id"] == bot["id"]
    rule = {"owner_id": "must be absent or your own id"}
    Refused(403, "forbidden", rule).check(bearer.post("/api_keys", {"owner_id": other["id"]}))
    Refused(403, "forbidden").check(bearer.post("/bot_users", {"name": ids.new("contract")}))


def test_a_key_that_another_credential_holds_is_a_conflict(client: Client) -> None:
    credential = {"public_key": public_key()}
    client.create("/ssh_credentials", credential)
    rule = {"public_key": "must be a value that no other resource uses"}
    Refused(409, "conflict", rule).check(client.post("/ssh_credentials", credential))


def test_what_was_deleted_is_not_found_whatever_is_asked_of_it(client: Client) -> None:
    address = f"/ssh_certificate_authorities/{client.create('/ssh_certificate_authorities', {})['id']}"
    assert client.delete(address).status == 204
    for answer in (
        client.get(address),
        client.patch(address, {}),
        client.patch(address, {"metadata": "x"}),
        client.delete(address),
    ):
        NOT_FOUND.check(answer)
