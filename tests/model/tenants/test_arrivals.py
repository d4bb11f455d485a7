"""Records of an export in their new form."""

from chalicelib.model.tenants import arrivals

OLD, NEW = "acct_3MP7i6STQOOs8vUV3egwo3wPz3O", "acct_3MWLk1UWRDF6z1FvMTwYZFL1gK3"


def test_the_accounts_id_is_replaced_everywhere_except_in_free_text() -> None:
    record = {
        "scope": f"{OLD}#/backends/weighted",
        "id": "bkdwd_1",
        "body": {"description": OLD, "metadata": f"{{{OLD}}}", "backends": {"bkdhr_1": 1}},
        "points": {"body": [[f"{OLD}#/backends/http_response", "bkdhr_1"]]},
        "sharers": {f"/x/{OLD}"},
        "revision": 1,
    }
    assert arrivals.translate(record, OLD, NEW) == {
        "scope": f"{NEW}#/backends/weighted",
        "id": "bkdwd_1",
        "body": {"description": OLD, "metadata": f"{{{OLD}}}", "backends": {"bkdhr_1": 1}},
        "points": {"body": [[f"{NEW}#/backends/http_response", "bkdhr_1"]]},
        "sharers": {f"/x/{NEW}"},
        "revision": 1,
    }


def test_what_needs_a_private_key_is_marked() -> None:
    record = {"scope": f"{OLD}#/tls_certificates", "id": "cert_3MWLk1UWRDF6z1FvMTwYZFL1gK3", "body": {}}
    assert arrivals.translate(record, OLD, NEW)["unseen"] == {"without_key": True}
