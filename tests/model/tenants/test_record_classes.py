"""Every stored record has a class: of each kind, and of each row of docs/operations.md."""

import re

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.tenants import record_classes, sealed_values
from chalicelib.model.tenants.record_classes import UnclassifiedRecord
from infra import ROOT
from tests.operator.tenants import worlds
from tests.transports import Client

ACCOUNT = "acct_3MP7i6STQOOs8vUV3egwo3wPz3O"
ID = "3MP7i859stWXH3XF7lM3e5f5M8Q"
PAGE = (ROOT / "docs" / "operations.md").read_text()
FILLED = {
    "<month>": "2026-11",
    "<SHA-256 of issuer and subject>": "0" * 64,
    "<host>:<port>": "a.example:443",
    "<label>.<TUNNEL_DOMAIN>": "a.tunnels.example",
    "<TUNNEL_DOMAIN>:<port>": "tunnels.example:20000",
}
IDS = {  # of rows with a description of the ids instead of a pattern
    "edge#/gateways": "gw-1",
    "edge#/looks": f"9999999999/{ACCOUNT}/rd_{ID}",
    "edge#/renewals": f"9999999999/{ACCOUNT}/rd_{ID}",
    "edge#/orders": f"{ACCOUNT}/rd_{ID}",
    "edge#/replaced": f"1795240563/{ACCOUNT}/cert_{ID}",
    "edge#/revocations": f"{ACCOUNT}/cert_{ID}",
    "edge#/hosts/<host>/statuses": f"{ACCOUNT}/edghts_{ID}",
    "A#/names/cooldown": "01795240563",
    "A#/usage/<month>": "2026-11-22T14#gw-1",
    "operator#/imports": "0" * 64,
}


def rows() -> list[tuple[str, str]]:
    """Return the scopes and ids of all rows of the page's tables of records."""
    pairs, section = [], ""
    for line in PAGE[: PAGE.index("### Examples")].splitlines():
        section = line.removeprefix("### ") if line.startswith("### ") else section
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for scope in re.findall(r"`([^`]*#[^`]*|accounts|sign_in_keys)`", cells[0]) if line.startswith("| `") else ():
            ids = ["claim"] if section == "Unique keys" else re.findall(r"`([^`]+)`", cells[1])
            pairs += [(scope, IDS.get(scope, id)) for id in ids or ["any"]]
    return pairs


def fill(text: str) -> str:
    for name, value in FILLED.items():
        text = text.replace(name, value)
    text = re.sub(r"<[^>]+>", ID, text)
    text = text.replace("acct_…", ACCOUNT).replace("…", ID)
    return re.sub(r"(?<=[/#])N$", "3", re.sub(r"\bA\b", ACCOUNT, text))


@pytest.mark.parametrize(("scope", "id"), rows())
def test_each_documented_record_has_a_class(scope: str, id: str) -> None:
    record_id = f"{id}{ID}" if id.endswith("_") else fill(id)
    record_classes.classify(fill(scope), record_id)


def test_each_class_is_documented() -> None:
    keys = [(fill(scope), f"{id}{ID}" if id.endswith("_") else fill(id)) for scope, id in rows()]
    classified = {record_classes.classify(*key) for key in keys}
    assert [record_class.name for record_class in record_classes.CLASSES if record_class not in classified] == []


def test_the_page_has_rows() -> None:
    assert len(rows()) > 60


def test_each_kind_with_a_list_has_its_portability() -> None:
    listed_kinds = {kind for kind in kinds.TABLE if kind.path and kind is not kinds.OTHER_BACKENDS}
    assert listed_kinds == record_classes.PORTABILITY.keys()
    shown_once = {kind for kind in listed_kinds if kind.stored_type.IS_SHOWN_ONCE}
    portable = {kind for kind, portability in record_classes.PORTABILITY.items() if portability == "portable"}
    assert not shown_once & portable, "an import could not show such a secret again: describe the kind instead"


def test_each_record_of_an_account_with_everything_has_one_class(admin: Client) -> None:
    worlds.fill(admin)
    worlds.write_service()
    for record in worlds.scan():
        names = [
            record_class.name
            for record_class in record_classes.CLASSES
            if record_class.has(record["scope"], record["id"])
        ]
        assert len(names) == 1, (record["scope"], record["id"], names)


def test_each_path_of_records_in_the_code_has_a_class() -> None:
    code = "\n".join(file.read_text() for folder in ("chalicelib", "edge") for file in (ROOT / folder).rglob("*.py"))
    pairs = re.findall(r'items\.scope\(\s*([^,()]+), f?"(/[^"]+)"', code)
    pairs += [("account", path) for path in re.findall(r'f"\{[^{}"]*account\}#(/[^"]+)"', code)]
    scopes = {f"{'edge' if owner.endswith('EDGE') else ACCOUNT}#{filled_path(path)}" for owner, path in pairs}
    assert len(scopes) > 20
    # A path that fails here needs a class, and a row in docs/operations.md.
    assert [
        scope
        for scope in sorted(scopes)
        if not any(record_class.has_scope(scope) for record_class in record_classes.CLASSES)
    ] == []


def filled_path(path: str) -> str:
    """Return a path of an f-string with a value in each place."""
    template = path.replace("{kinds.AUDIT_EVENTS.path}", "/audit_events").replace("{ID}", "certificate")
    template = template.replace("{month}", "2026-11")
    return re.sub(r"/$", "/3", re.sub(r"\{.*?\}(?=/|$)", "x1", template))


def test_an_unknown_record_has_no_class() -> None:
    with pytest.raises(UnclassifiedRecord):
        record_classes.classify(f"{ACCOUNT}#/unknown", "it_1")


def test_every_ciphertext_of_the_table_is_found(admin: Client) -> None:
    worlds.fill(admin)
    worlds.write_service()
    for record in worlds.scan():
        assert len(sealed_values.find(record)) == len(worlds.ciphertexts(record)), record
        assert worlds.ciphertexts(sealed_values.remove(record)) == []


def test_only_known_files_seal() -> None:
    sealing = {
        str(file.relative_to(ROOT))
        for folder in ("chalicelib", "edge")
        for file in (ROOT / folder).rglob("*.py")
        if re.search(r"vault\.seal(_text)?\b", file.read_text())
    }
    # A new file here also needs a place in `sealed_values`, or `secrets rewrap` would miss its secrets.
    assert sealing == {
        "chalicelib/http/resource.py",
        "chalicelib/model/edges/modules/basic_auth.py",
        "chalicelib/model/edges/modules/oauth.py",
        "chalicelib/model/edges/modules/webhook_verification.py",
        "chalicelib/model/sign_in/link_pairs.py",
        "chalicelib/model/sign_in/managed_apps.py",
        "chalicelib/model/tls/acme_accounts.py",
        "edge/issuer/key_making.py",
        "edge/sign_in/session/keys.py",
        "edge/sign_in/sign_in_records.py",
        "edge/store/link_authority.py",
    }
