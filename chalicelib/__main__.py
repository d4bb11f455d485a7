"""The operator's entrance: `python -m chalicelib`. Works on the store that the environment names."""

import json
import os
import signal
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction, FileType, Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from chalicelib import exported, migrated, openapi, operations, restored, routes, traffic
from chalicelib.model import accounts, audit, bans, blocks, events, name_bans, owners, tunnels
from chalicelib.model.api_keys import ApiKey
from chalicelib.model.audit import OPERATOR
from chalicelib.model.tunnels import BackendTunnel, Traffic
from chalicelib.operations import CommandError
from chalicelib.storage import diagnosis
from chalicelib.storage.aws import AwsError
from chalicelib.storage.items import Item

_SWITCHES = (("disable", "switch off", "off"), ("enable", "switch on again", "on"))

Subparsers = Any  # argparse has no public name for what add_subparsers returns


def main(words: list[str]) -> None:
    """Do what the arguments say; one sentence and exit status 1 when it cannot be done."""
    arguments = _parser().parse_args(words)
    try:
        with audit.operated_by(arguments.name_of_operator, arguments.reason):
            arguments.act(arguments)
        sys.stdout.flush()
    except CommandError as error:
        sys.exit(str(error))
    except BrokenPipeError:  # who reads has enough; nor has the interpreter anything left to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except AwsError as error:
        sys.exit(diagnosis.sentence(error))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m chalicelib", description=__doc__)
    about = "who acts, as audit events tell it (default: the system's user)"
    parser.add_argument("--as", dest="name_of_operator", default="", metavar="NAME", help=about)
    parser.set_defaults(reason="")
    groups = parser.add_subparsers(required=True, metavar="WHAT")
    parts = _accounts, _owners, _keys, _tunnels, _usages, _suspensions, _networks, _names, _stores, _trails, _migrations
    for add in parts:
        add(groups)
    _listing(groups, "list the routes of the API, as JSON with their scopes and errors", _routes, name="routes")
    return parser


def _accounts(groups: Subparsers) -> None:
    group = _group(groups, "accounts", "accounts, each with users, bots and resources of its own")
    create = _command(group, "create", "create an account with its first admin and the admin's first key", _create)
    create.add_argument("name", help="the account's name")
    create.add_argument("--admin", default="admin", metavar="NAME", help="the first admin's name (default: admin)")
    _limits(create)
    _listing(group, "list all accounts with their users and bots", _list)
    _listing(group, "list the names that a user and a bot of one account share", _list_clashes, name="clashes")
    for action, about, to in _SWITCHES:
        switch = _command(group, action, f"{about} an account, with all that lets in for it", _switch_account)
        _about(switch, account="the account's id (acct_…)")
        _reason(switch)
        switch.set_defaults(to=to)
    limits = _command(group, "limits", "bound what an account may do", _limit_account)
    _about(limits, account="the account's id (acct_…)")
    about = "its tunnels have names that it has reserved, and no others"
    limits.add_argument("--only-reserved", action=BooleanOptionalAction, required=True, help=about)


def _owners(groups: Subparsers) -> None:
    for kind, prefix in (("users", "usr"), ("bots", "bot")):
        group = _group(groups, kind, f"the {kind} of an account")
        add = _command(group, "add", f"add one of the {kind}", _add)
        _about(add, account="the account's id (acct_…)", name="a name to know it by")
        add.add_argument("--admin", action="store_true", help="may act for the others of its account")
        add.set_defaults(prefix=prefix)
        listing = _listing(group, f"list the {kind} of an account", _list_owners)
        _about(listing, account="the account's id (acct_…)")
        listing.set_defaults(prefix=prefix)
        for action, about, to in _SWITCHES:
            switch = _command(group, action, f"{about} one, with their keys and SSH credentials", _switch_owner)
            _about(switch, account="the account's id (acct_…)", owner=f"the id ({prefix}_…)")
            _reason(switch)
            switch.set_defaults(to=to)
        if prefix == "usr":
            delete = _command(
                group, "delete", "remove one who owns nothing", lambda it: operations.delete_user(it.account, it.user)
            )
            _about(delete, account="the account's id (acct_…)", user="the user's id (usr_…)")
            _reason(delete)


def _keys(groups: Subparsers) -> None:
    group = _group(groups, "keys", "API keys")
    issue = _command(group, "issue", "issue an API key for a user or bot", _issue)
    _about(issue, account="the account's id (acct_…)", owner="the id of the user (usr_…) or bot (bot_…) to own the key")
    issue.add_argument("--description", default="", help="what uses the key")
    _limits(issue)
    _about(_listing(group, "list the API keys of an account", _list_keys), account="the account's id (acct_…)")
    about = "delete an API key: it is refused from the next request on"
    revoke = _command(group, "revoke", about, lambda it: operations.revoke_key(it.account, it.key))
    _about(revoke, account="the account's id (acct_…)", key="the key's id (ak_…)")
    _reason(revoke)


def _tunnels(groups: Subparsers) -> None:
    group = _group(groups, "tunnels", "the tunnels that are online")
    _command(group, "list", "list them, with their accounts and what opened them", _list_tunnels)
    end = _command(group, "end", "take one offline; its client may come back", lambda it: traffic.end_tunnel(it.id))
    end.add_argument("id", help="the tunnel's id (tn_…)")
    _reason(end)
    who = _listing(
        group, "tell which tunnel had a name at a time, with its account, credential and address", _who, name="who"
    )
    _about(who, name="the whole name, demo.tunnels.localhost, of a port tunnels.localhost:20022, or a URL")
    who.add_argument("--at", default="", metavar="TIME", help="when (RFC 3339, default: now)")
    demo = _command(group, "demo", "keep a demonstration tunnel online until Ctrl-C", _demo)
    demo.add_argument("account", help="the account's id (acct_…)")
    demo.add_argument(
        "--label",
        action="append",
        default=[],
        type=traffic.label,
        metavar="NAME=VALUE",
        help="a label to carry, for tunnel groups to find it by; may be repeated",
    )


def _usages(groups: Subparsers) -> None:
    used = _listing(groups, "tell what went through an account's tunnels in a month, by day", _usage, name="usage")
    _about(used, account="the account's id (acct_…)")
    used.add_argument("--month", default="", metavar="YYYY-MM", help="which (UTC, default: the present one)")


def _suspensions(groups: Subparsers) -> None:
    for action, about, do in (
        ("suspend", "let an account, SSH credential or user certificate in no more", operations.suspend),
        ("resume", "let it in again", operations.resume),
    ):
        command = _command(groups, action, about, _on_id(do))
        _about(command, id="its id (acct_…, sshcr_… or sucrt_…)")
        _reason(command)


def _networks(groups: Subparsers) -> None:
    group = _group(groups, "networks", "the networks that nobody signs in from, and that no address answers")
    for action, about, act in (("block", "block one", _block), ("unblock", "let it in again", _unblock)):
        command = _command(group, action, about, act)
        _about(command, network="the network or address, as 192.0.2.0/24")
        _reason(command)
    _listing(group, "list them", _list_blocks)


def _names(groups: Subparsers) -> None:
    group = _group(groups, "names", "the host names and ports that nobody may have")
    ban = _command(group, "ban", "let nobody have it", lambda it: traffic.ban_name(it.name))
    allow = _command(group, "allow", "let everybody have it again", lambda it: traffic.allow_name(it.name))
    for command in (ban, allow):
        _about(
            command,
            name="the whole name, demo.tunnels.localhost, of a port tunnels.localhost:20022, or a pattern, *bank*",
        )
        _reason(command)
    _command(group, "list", "list them", _list_names)
    about = "let the API and the edge start with another TUNNEL_DOMAIN or TCP_PORTS"
    forget = _command(group, "forget-settings", about, _forget_settings)
    forget.add_argument("--force", action="store_true", help="even while names exist, which are then not served")


def _stores(groups: Subparsers) -> None:
    store = _group(groups, "store", "the table and the key that the environment names")
    _command(store, "create", "create the table and the key alias, where they are not", _create_store)

    revocations = _group(groups, "revocations", "what was revoked since the time that this table was restored to")
    revoked = _command(revocations, "list", "list what lets in by this table and no more by a later one", _list_revoked)
    revoked.add_argument("later", metavar="TABLE", help="the name of the later table")
    repeat = _command(revocations, "repeat", "revoke what such a list names, of this table", _repeat)
    repeat.add_argument("list", type=FileType(encoding="utf-8", errors="replace"), metavar="FILE", help="the list")


def _trails(groups: Subparsers) -> None:
    trail = _group(groups, "audit", "audit events")
    _listing(trail, "list the events of what no account has, as blocked networks, newest first", _list_events)
    about = "print the events of an account that are a minute old, oldest first"
    exported.arguments(_command(trail, "export", about, exported.export))


def _migrations(groups: Subparsers) -> None:
    migrate = _command(groups, "migrate", "say which records of earlier editions would be rewritten", _migrate)
    migrate.add_argument("--apply", action="store_true", help="rewrite them, while the API serves; can be repeated")


def _reason(command: ArgumentParser) -> None:
    command.add_argument("--reason", default="", metavar="TEXT", help="why, as audit events tell it; at most 255 bytes")


def _limits(command: ArgumentParser) -> None:
    """Add the limits of the key that a command makes."""
    ends, scope = "when the key ends: 90d, 12h, 30m from now", "what the key may do, as edges:read; may be repeated"
    command.add_argument("--expires-in", type=operations.duration, metavar="TIME", help=f"{ends} (default: never)")
    command.add_argument("--scope", action="append", default=[], metavar="SCOPE", help=f"{scope} (default: everything)")


def _about(command: ArgumentParser, **arguments: str) -> None:
    for name, about in arguments.items():
        command.add_argument(name, help=about)


def _listing(group: Subparsers, about: str, act: Callable[[Namespace], None], *, name: str = "list") -> ArgumentParser:
    command = _command(group, name, about, act)
    command.add_argument("--json", action="store_true", help="as JSON, one object to a line")
    return command


def _group(groups: Subparsers, name: str, about: str) -> Subparsers:
    return groups.add_parser(name, help=about, description=about).add_subparsers(required=True, metavar="ACTION")


def _command(group: Subparsers, name: str, about: str, act: Callable[[Namespace], None]) -> ArgumentParser:
    command: ArgumentParser = group.add_parser(name, help=about, description=about)
    command.set_defaults(act=act)
    return command


def _create(arguments: Namespace) -> None:
    limits = {"expires_in": arguments.expires_in, "scopes": arguments.scope}
    account, user, token = operations.create_account(arguments.name, arguments.admin, **limits)
    print(f"account {account.id}\nadmin {user.id}\ntoken {token}")


def _list(arguments: Namespace) -> None:
    for account in operations.list_accounts():
        owners = accounts.list_owners(account.id)
        if arguments.json:
            print(json.dumps({**_told(account), "owners": [_told(owner) for owner in owners]}))
            continue
        print(f"{account.id} {account.body['name']}{_state(account)}")
        for owner in owners:
            print(f"  {owner.id} {owner.body['name']}{' (admin)' if owner.body['admin'] else ''}{_state(owner)}")


def _list_clashes(arguments: Namespace) -> None:
    for account, name, ids in operations.list_clashes():
        told = {"account": account, "name": name, "owners": ids}
        print(json.dumps(told) if arguments.json else f"{account} {json.dumps(name)} {' '.join(ids)}")


def _list_owners(arguments: Namespace) -> None:
    for owner in operations.list_owners(arguments.account, arguments.prefix):
        admin = " (admin)" if owner.body["admin"] else ""
        print(json.dumps(_told(owner)) if arguments.json else f"{owner.id} {owner.body['name']}{admin}{_state(owner)}")


def _list_keys(arguments: Namespace) -> None:
    for key in operations.list_keys(arguments.account):
        told = {"id": key.id, **{name: value for name, value in key.body.items() if name != "token"}}
        stored = ApiKey.of(key.body)
        ends, scopes = stored.expires_at or "-", ",".join(stored.scopes or ["*"])
        line = f"{key.id} {stored.owner_id} {ends} {scopes} {json.dumps(stored.description)}"
        print(json.dumps(told) if arguments.json else line)


def _told(item: Item) -> dict[str, Any]:
    return {"id": item.id, **item.body, "active": owners.is_shown_active(item)}


def _state(item: Item) -> str:
    return "" if owners.is_shown_active(item) else " (inactive)"


def _switch_account(arguments: Namespace) -> None:
    operations.switch_account(arguments.account, arguments.to)


def _limit_account(arguments: Namespace) -> None:
    operations.limit_account(arguments.account, only_reserved=arguments.only_reserved)


def _switch_owner(arguments: Namespace) -> None:
    operations.switch_owner(arguments.account, arguments.owner, arguments.to)


def _add(arguments: Namespace) -> None:
    print(operations.add_owner(arguments.account, arguments.prefix, arguments.name, admin=arguments.admin).id)


def _issue(arguments: Namespace) -> None:
    limits = {"expires_in": arguments.expires_in, "scopes": arguments.scope}
    key, token = operations.issue_key(arguments.account, arguments.owner, arguments.description, **limits)
    print(f"key {key.id}\ntoken {token}")


def _demo(arguments: Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tunnel = traffic.open_demo_tunnel(arguments.account, dict(arguments.label))
    try:
        print(f"tunnel {tunnel} is online until Ctrl-C", flush=True)
        while tunnels.renew_lease(arguments.account, tunnel, lease=traffic.DEMO_LEASE):
            time.sleep(traffic.DEMO_LEASE / 3)
    except KeyboardInterrupt:
        tunnels.close_tunnel(arguments.account, tunnel, by=OPERATOR)


def _list_tunnels(_: Namespace) -> None:
    for account, tunnel in traffic.list_tunnels():
        found = tunnels.decode(tunnel)
        labels = found.labels.items() if isinstance(found, BackendTunnel) else ()
        what = ",".join(f"{key}={value}" for key, value in labels) or tunnel.body.get("public_url")
        print(account, tunnel.id, found.started_at, found.credential or "-", what)


def _who(arguments: Namespace) -> None:
    found = asdict(traffic.who_had(arguments.name, arguments.at))
    if arguments.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(name, value or "-")


def _usage(arguments: Namespace) -> None:
    days = traffic.usage(arguments.account, arguments.month)
    if arguments.json:
        for day, used in days.items():
            print(json.dumps({"day": day, **asdict(used)}))
        return
    for day, used in [*days.items(), ("total", sum(days.values(), start=Traffic()))]:
        print(day, f"bytes_in={used.bytes_in} bytes_out={used.bytes_out} requests={used.requests}")


def _block(arguments: Namespace) -> None:
    print(f"{traffic.block(arguments.network)} is blocked")


def _on_id(act: Callable[[str], None]) -> Callable[[Namespace], None]:
    return lambda arguments: act(arguments.id)


def _unblock(arguments: Namespace) -> None:
    traffic.unblock(arguments.network)


def _list_blocks(arguments: Namespace) -> None:
    for network, found in blocks.list_networks():
        told = {"network": network, **found.to_record()}
        print(json.dumps(told) if arguments.json else f"{network} {found.created_at} {json.dumps(found.reason)}")


def _list_events(arguments: Namespace) -> None:
    for item in events.of_operator():
        found = audit.Event.of(item.body)
        told = {"id": item.id, **found.to_record()}
        line = (
            f"{found.created_at} {found.actor['name']} {found.action} {found.resource_id} {json.dumps(found.details)}"
        )
        print(json.dumps(told) if arguments.json else line)


def _list_names(_: Namespace) -> None:
    for name in (*name_bans.banned_names(), *bans.patterns()):
        print(name)


def _forget_settings(arguments: Namespace) -> None:
    former = traffic.forget_settings(is_forced=arguments.force)
    print(f"The table no longer has {former}. The next process that uses names stores its own settings.")


def _create_store(arguments: Namespace) -> None:
    for made in operations.create_store():
        print(made)


def _list_revoked(arguments: Namespace) -> None:
    for line in restored.revoked_by(arguments.later):
        print(line)


def _repeat(arguments: Namespace) -> None:
    with arguments.list as lines:
        named = [restored.read(line) for line in lines if line.strip()]
    for revocation in named:
        print(revocation.subject, "is revoked" if restored.repeat(revocation) else "is not there", flush=True)


def _migrate(arguments: Namespace) -> None:
    for line in migrated.lines(applies=arguments.apply, report=partial(print, file=sys.stderr, flush=True)):
        print(line, flush=True)


def _routes(arguments: Namespace) -> None:
    if arguments.json:
        for operation in openapi.operations():
            print(json.dumps(operation))
        return
    for served in routes.ALL:
        for endpoint in served.endpoints():
            print(f"{endpoint.method:6} {endpoint.path}")


if __name__ == "__main__":
    main(sys.argv[1:])
