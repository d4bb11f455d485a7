"""The operator's entrance: `python -m chalicelib`. Works on the store that the environment names."""

import json
import signal
import sys
import time
from argparse import ArgumentParser, FileType, Namespace
from collections import Counter
from collections.abc import Callable
from typing import Any

from chalicelib import operations, routes
from chalicelib.model import accounts, migrations, tunnels
from chalicelib.operations import CommandError
from chalicelib.storage import diagnosis
from chalicelib.storage.aws import AwsError

Subparsers = Any  # argparse has no public name for what add_subparsers returns


def main(words: list[str]) -> None:
    """Do what the arguments say; one sentence and exit status 1 when it cannot be done."""
    arguments = _parser().parse_args(words)
    try:
        arguments.act(arguments)
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(diagnosis.sentence(error))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m chalicelib", description=__doc__)
    groups = parser.add_subparsers(required=True, metavar="WHAT")

    account = _group(groups, "accounts", "accounts, each with users, bots and resources of its own")
    create = _command(account, "create", "create an account with its first admin and the admin's first key", _create)
    create.add_argument("name", help="the account's name")
    create.add_argument("--admin", default="admin", metavar="NAME", help="the first admin's name (default: admin)")
    _command(account, "list", "list all accounts with their users and bots", _list)

    for kind, prefix in (("users", "usr"), ("bots", "bot")):
        add = _command(_group(groups, kind, f"the {kind} of an account"), "add", f"add one of the {kind}", _add)
        add.add_argument("account", help="the account's id (acct_…)")
        add.add_argument("name", help="a name to know it by")
        add.add_argument("--admin", action="store_true", help="may act for the others of its account")
        add.set_defaults(prefix=prefix)

    issue = _command(_group(groups, "keys", "API keys"), "issue", "issue an API key for a user or bot", _issue)
    issue.add_argument("account", help="the account's id (acct_…)")
    issue.add_argument("owner", help="the id of the user (usr_…) or bot (bot_…) that is to own the key")
    issue.add_argument("--description", default="", help="what uses the key")

    online = _group(groups, "tunnels", "the tunnels of an account")
    demo = _command(online, "demo", "keep a demonstration tunnel online until Ctrl-C", _demo)
    demo.add_argument("account", help="the account's id (acct_…)")
    demo.add_argument(
        "--label",
        action="append",
        default=[],
        type=operations.label,
        metavar="NAME=VALUE",
        help="a label to carry, for tunnel groups to find it by; may be repeated",
    )

    store = _group(groups, "store", "the table and the key that the environment names")
    _command(store, "create", "create the table and the key alias, where they are not", _create_store)

    revocations = _group(groups, "revocations", "what was revoked since the time that this table was restored to")
    revoked = _command(revocations, "list", "list what lets in by this table and no more by a later one", _list_revoked)
    revoked.add_argument("later", metavar="TABLE", help="the name of the later table")
    repeat = _command(revocations, "repeat", "revoke what such a list names, of this table", _repeat)
    repeat.add_argument("list", type=FileType(encoding="utf-8", errors="replace"), metavar="FILE", help="the list")

    migrate = _command(groups, "migrate", "say which records of earlier editions would be rewritten", _migrate)
    migrate.add_argument("--apply", action="store_true", help="rewrite them, while the API serves; can be repeated")

    _command(groups, "routes", "list the routes of the API", _routes)
    return parser


def _group(groups: Subparsers, name: str, about: str) -> Subparsers:
    return groups.add_parser(name, help=about, description=about).add_subparsers(required=True, metavar="ACTION")


def _command(group: Subparsers, name: str, about: str, act: Callable[[Namespace], None]) -> ArgumentParser:
    command: ArgumentParser = group.add_parser(name, help=about, description=about)
    command.set_defaults(act=act)
    return command


def _create(arguments: Namespace) -> None:
    account, user, token = operations.create_account(arguments.name, arguments.admin)
    print(f"account {account.id}\nadmin {user.id}\ntoken {token}")


def _list(arguments: Namespace) -> None:
    for account in operations.list_accounts():
        print(f"{account.id} {account.body['name']}")
        for owner in accounts.owners(account.id):
            print(f"  {owner.id} {owner.body['name']}{' (admin)' if owner.body['admin'] else ''}")


def _add(arguments: Namespace) -> None:
    print(operations.add_owner(arguments.account, arguments.prefix, arguments.name, admin=arguments.admin).id)


def _issue(arguments: Namespace) -> None:
    key, token = operations.issue_key(arguments.account, arguments.owner, arguments.description)
    print(f"key {key.id}\ntoken {token}")


def _demo(arguments: Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tunnel = operations.open_demo_tunnel(arguments.account, dict(arguments.label))
    try:
        print(f"tunnel {tunnel} is online until Ctrl-C", flush=True)
        while tunnels.renew_lease(arguments.account, tunnel, lease=operations.DEMO_LEASE):
            time.sleep(operations.DEMO_LEASE / 3)
    except KeyboardInterrupt:
        tunnels.close_tunnel(arguments.account, tunnel)


def _create_store(arguments: Namespace) -> None:
    for made in operations.create_store():
        print(made)


def _list_revoked(arguments: Namespace) -> None:
    for (account, id), item in operations.revoked_by(arguments.later).items():
        said = [item.body["name"]] if "name" in item.body else [item.body["owner_id"], item.body["description"]]
        print(account, id, *map(json.dumps, said))


def _repeat(arguments: Namespace) -> None:
    with arguments.list as lines:
        named = [operations.revocable(line) for line in lines if line.strip()]
    for account, id in named:
        print(id, "is revoked" if operations.revoke(account, id) else "is not there", flush=True)


def _migrate(arguments: Namespace) -> None:
    found, rewritten, overtaken = Counter[str](), 0, 0
    for migration in migrations.pending():
        found[migration.what if migration else "up to date"] += 1
        if migration and arguments.apply:
            done = migrations.apply(migration)
            rewritten, overtaken = rewritten + done, overtaken + (not done)
    lacking = ", ".join(f"{count} of the kind {what}" for what, count in sorted(found.items()) if what != "up to date")
    print(f"{found.total()} records; to be rewritten: {lacking or 'none'}.")
    if arguments.apply:
        print(f"{rewritten} rewritten." + (f" {overtaken} changed meanwhile: run it again." if overtaken else ""))
    elif lacking:
        print("Nothing was changed: --apply rewrites them.")


def _routes(arguments: Namespace) -> None:
    for served in routes.ALL:
        for endpoint in served.endpoints():
            print(f"{endpoint.method:6} {endpoint.path}")


if __name__ == "__main__":
    main(sys.argv[1:])
