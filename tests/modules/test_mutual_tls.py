"""Mutual TLS (SPEC 2.9, 4.8) by its own rules; what all modules share is tested once for all of them."""

import pytest

from chalicelib import ids
from chalicelib.modules import mutual_tls
from tests.modules.samples import anywhere, ref
from tests.refusals import assert_invalid
from tests.transports import Client

OF_HTTPS, MUTUAL_TLS = mutual_tls.MODULES

PATH = "/certificate_authorities"
FIELD = "certificate_authority_ids"
AT_THE_EDGE = "must be false if TLS ends upstream"


def refs(ca_ids: list[str]) -> list[dict[str, str]]:
    return [ref(PATH, id) for id in ca_ids]


@pytest.mark.parametrize("count", [1, 10])
def test_one_to_ten_authorities_keep_their_order(admin: Client, count: int) -> None:
    address, ca_ids = anywhere(MUTUAL_TLS), sorted((ids.new("ca") for _ in range(count)), reverse=True)
    assert admin.put(address, {FIELD: ca_ids}).json == {"enabled": True, "certificate_authorities": refs(ca_ids)}
    assert admin.put(address, {FIELD: ca_ids[::-1]}).json["certificate_authorities"] == refs(ca_ids[::-1])
    assert admin.get(address).json == {"enabled": True, "certificate_authorities": refs(ca_ids[::-1])}


def test_none_eleven_or_the_same_twice_are_refused(admin: Client) -> None:
    address, ca_ids = anywhere(MUTUAL_TLS), [ids.new("ca") for _ in range(11)]
    for wrong, rule in (
        ([], "must not be empty"),
        (ca_ids, "must have at most 10 entries"),
        ([ca_ids[0], ca_ids[1], ca_ids[0]], "must not name an authority twice"),
        (None, "must be an array"),
        (ca_ids[0], "must be an array"),
    ):
        assert_invalid(admin.put(address, {FIELD: wrong}), {FIELD: rule})
    assert_invalid(admin.put(address, {"enabled": True}), {FIELD: "is required"})
    assert admin.get(address).status == 404


def test_each_bad_id_is_named(admin: Client) -> None:
    form = "must be an id of the form ca_…"
    ca_ids = [ids.new("ca"), ids.new("sshca"), "ca_short", "", 1, None]
    errors = {f"{FIELD}.1": form, f"{FIELD}.2": form, f"{FIELD}.3": form}
    errors |= {f"{FIELD}.4": "must be a string", f"{FIELD}.5": "must be a string"}
    assert_invalid(admin.put(anywhere(MUTUAL_TLS), {FIELD: ca_ids}), errors)


def test_an_https_edge_shows_it_and_takes_it_with_its_creation(admin: Client) -> None:
    ca_ids = [ids.new("ca")]
    edge = admin.create("/edges/https", {"mutual_tls": {FIELD: ca_ids}})
    assert edge["mutual_tls"] == {"enabled": True, "certificate_authorities": refs(ca_ids)}
    address = f"/edges/https/{edge['id']}"
    assert admin.patch(address, {"mutual_tls": None, "description": "new"}).json["mutual_tls"] == edge["mutual_tls"]
    assert admin.delete(f"{address}/mutual_tls").status == 204
    assert admin.get(address).json["mutual_tls"] is None


def test_an_edge_that_passes_tls_on_sees_no_certificate_of_clients(admin: Client) -> None:
    fields = {FIELD: [ids.new("ca")]}
    upstream = {"terminate_at": "upstream"}
    assert_invalid(admin.post("/edges/https", {**upstream, "mutual_tls": fields}), {"mutual_tls.enabled": AT_THE_EDGE})
    address = f"/edges/https/{admin.create('/edges/https', upstream)['id']}"
    assert_invalid(admin.put(f"{address}/mutual_tls", fields), {"enabled": AT_THE_EDGE})
    assert_invalid(admin.patch(address, {"mutual_tls": fields}), {"mutual_tls.enabled": AT_THE_EDGE})
    assert admin.get(address).json["mutual_tls"] is None

    assert admin.put(f"{address}/mutual_tls", {**fields, "enabled": False}).status == 200
    assert admin.patch(address, {"terminate_at": "edge"}).status == 200
    assert admin.put(f"{address}/mutual_tls", fields).status == 200
    assert_invalid(admin.patch(address, upstream), {"mutual_tls.enabled": AT_THE_EDGE})
    assert admin.get(address).json["terminate_at"] == "edge"
