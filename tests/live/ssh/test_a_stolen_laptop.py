"""The commands of "A stolen laptop" in docs/ssh.md find all that a thief had signed, however much came since."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.buried_events import bury
from tests.conftest import ROOT, Served
from tests.samples import public_key

USERS = "/ssh_user_certificates"
_ADMIN_BOT = """
import sys
from chalicelib.operator import owners
print(owners.add_owner(sys.argv[1], "bot", "colleague", admin=True).id)
"""
PAGE = (ROOT / "docs/ssh.md").read_text()


def list_certificates(api: Served, certificate: str, folder: Path) -> list[str]:
    """Return the ids of the certificates that the lines of the page print, given that of the stolen laptop."""
    parts = [r"^api\(\) .*?; \}$", r"^events\(\) .*?^}$", r"^ *OWNER=.*?$", r'^ *events "action=.*?(?=^ *```$)']
    lines = [match[0] for part in parts if (match := re.search(part, PAGE, re.M | re.S))]
    assert len(lines) == len(parts)
    settings = {"BASE_URL": api.base_url, "API_KEY": api.token}
    (folder / "bob.json").write_text(json.dumps({"id": certificate}))
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder, env={"PATH": os.environ["PATH"], **settings}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [line.split("\t")[2] for line in result.stdout.splitlines()]


def admin_bot(api: Served, account: str) -> str:
    """Return the id of a bot that the operator makes an admin: others may not delete certificates of the owner."""
    creation = subprocess.run(
        [sys.executable, "-c", _ADMIN_BOT, account],
        cwd=ROOT, env={**os.environ, **api.cloud}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return creation.stdout.strip()


@pytest.mark.needs("bash", "curl", "jq")
def test_what_a_thief_had_signed_is_found_behind_newer_events_of_who_deleted_it(served: Served, tmp_path: Path) -> None:
    api = served.newcomer()
    owner = api.client()
    authority = owner.create("/ssh_certificate_authorities", {})["id"]
    certificate_ids = [
        owner.create(USERS, {"ssh_certificate_authority_id": authority, "public_key": public_key()})["id"]
        for _ in range(3)
    ]
    colleague = admin_bot(api, owner.get("/me").json["account"])
    token = owner.create("/api_keys", {"owner_id": colleague})["token"]
    assert owner.with_token(token).delete(f"{USERS}/{certificate_ids[0]}").status == 204
    bury(api, token, 525)  # more than one page picks from
    assert list_certificates(api, certificate_ids[0], tmp_path) == certificate_ids[::-1]
