"""The commands `te api`, `te revoke` and `te offboard`."""

import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client
from tunnel_edge.commands import kinds, options
from tunnel_edge.commands.options import Command
from tunnel_edge.errors import USAGE, CommandError
from tunnel_edge.identity.session import Session

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_OFFBOARDED = {"usr": "users", "bot": "bot_users", "ak": "api_keys", "fcred": "federated_credentials"}
_COUNTERS = ("keys", "ssh_credentials", "certificates", "federated_credentials")


@click.command("api", cls=Command)
@click.argument("method", type=click.Choice(_METHODS, case_sensitive=False))
@click.argument("path")
@click.option("--input", "file", metavar="FILE", help="Send this JSON, - for standard input.")
@click.option("--paginate", is_flag=True, help="Follow all pages of a list.")
def call_api(method: str, path: str, file: str | None, paginate: bool) -> None:
    """Send one request to the service, and print its answer."""
    if not path.startswith("/"):
        raise CommandError(f"'{path}' is not a path of the API: begin it with a slash, like /api_keys.", USAGE)
    body = None if file is None else kinds.read_json("--input", file)
    client = options.chosen().open_session().client
    shown_as = options.chosen().format or "json"
    if paginate:
        output.show_list(_entries(client, path), shown_as, options.chosen().columns or ("id",))
        return
    answer = client.send(method.upper(), path, body)
    if answer.headers.get("content-type", "").startswith("application/json"):
        output.show_object(answer.json, shown_as)
    elif answer.content:
        is_shown = sys.stdout.isatty()  # on a terminal, JSON is formatted. A program gets the bytes unchanged
        text = output.to_plain(answer.content.decode("utf-8", "replace")).encode()
        sys.stdout.buffer.write(text if is_shown else answer.content)


def _entries(client: Client, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of all pages of a list. The entries are the only array in each page."""
    for page in client.pages(path):
        lists = [value for value in page.values() if isinstance(value, list)]
        if len(lists) != 1 or "next_page_uri" not in page:
            raise CommandError(f"{path} is not a list: leave out --paginate.", USAGE)
        yield from lists[0]


@click.command(cls=Command)
@click.argument("subject", metavar="ID|FILE.pub|SERIAL")
@click.option("--authority", metavar="ID", help="The authority. Default: the certificate's, or the profile's.")
@click.option("--reason", metavar="TEXT", help="The reason that is stored with the revocation.")
def revoke(subject: str, authority: str | None, reason: str | None) -> None:
    """Revoke an SSH certificate by its id or serial, or a public key by its file."""
    session = options.chosen().open_session()
    body = _subject(subject)
    authority = authority or _authority(session, body)
    body |= {"reason": reason} if reason else {}
    options.chosen().show(session.client.post(f"/ssh_certificate_authorities/{authority}/revocations", body))


def _subject(subject: str) -> dict[str, Any]:
    """Return the fields of a revocation for the id or serial of a certificate, or the file of a public key."""
    for prefix, name in (("sucrt_", "ssh_user_certificate_id"), ("shcrt_", "ssh_host_certificate_id")):
        if subject.startswith(prefix):
            return {name: subject}
    if re.fullmatch(r"[1-9][0-9]*", subject):
        return {"serial": subject}
    try:
        return {"public_key": Path(subject).read_text(encoding="utf-8").strip()}
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"'{subject}' must be the id of a certificate (sucrt_…), a serial, or a file with a public key: {error}",
            USAGE,
        ) from error


def _authority(session: Session, body: Mapping[str, Any]) -> str:
    """Return the id of the SSH authority that signed a certificate.

    For a serial or public key, return the SSH authority of the profile.
    """
    for kind in ("ssh_user_certificate", "ssh_host_certificate"):
        if certificate := body.get(f"{kind}_id"):
            return str(session.client.get(f"/{kind}s/{certificate}")["ssh_certificate_authority_id"])
    if not session.profile.authority:
        raise CommandError("The profile has no SSH certificate authority: name one with --authority sshca_…", USAGE)
    return session.profile.authority


@click.command(cls=Command)
@click.argument("root", metavar="ID")
@click.option("--others", type=click.Choice(["end", "keep"]), help="What happens to resources of other owners.")
@click.option("--certificates", type=click.Choice(["revoke", "keep"]), help="Whether SSH certificates are revoked.")
def offboard(root: str, others: str | None, certificates: str | None) -> None:
    """End a user, bot, API key or federated credential with everything it made."""
    collection = _OFFBOARDED.get(root.partition("_")[0])
    if collection is None:
        raise CommandError(f"'{root}' cannot be offboarded: name a usr_…, bot_…, ak_… or fcred_…", USAGE)
    body = {name: value for name, value in (("others", others), ("certificates", certificates)) if value}
    client = options.chosen().open_session().client
    total: dict[str, Any] = {}
    while True:
        answer = client.post(f"/{collection}/{root}/offboard", body)
        total = answer | {name: total.get(name, 0) + answer[name] for name in _COUNTERS}
        if answer["complete"]:
            break
        output.note(f"The request is not complete yet. It is repeated in {answer['retry_after']} seconds.")
        time.sleep(answer["retry_after"])
    options.chosen().show(total)
