"""Blocked networks. Clients there cannot sign in, and visitors there get no answer."""

import json

import click

from chalicelib.model.tunnels import blocks
from chalicelib.operator.command_line import CommandError, OperatorGroup, json_option, reason_option

_NETWORK = "The network or address, for example 192.0.2.0/24."

group = OperatorGroup(
    "networks", help="Blocked networks: their clients cannot sign in, and their visitors get no answer."
)


def block_network(network: str) -> str:
    """Block a network or an address; return its normal form. Raises CommandError."""
    normal = _normalize(network)
    blocks.block(normal)
    return normal


def unblock_network(network: str) -> None:
    """Remove a block. Raises CommandError if there is none."""
    if not blocks.unblock(_normalize(network)):
        raise CommandError(f"{network} is not blocked: 'networks list' shows the blocked networks.")


def _normalize(text: str) -> str:
    try:
        return blocks.normalize(text)
    except ValueError as error:
        raise CommandError(f"{text} {error}.") from None


@group.command("block", help="Block a network.")
@click.argument("network", help=_NETWORK)
@reason_option
def _block(network: str) -> None:
    print(f"{block_network(network)} is blocked")


@group.command("unblock", help="Remove the block of a network.")
@click.argument("network", help=_NETWORK)
@reason_option
def _unblock(network: str) -> None:
    unblock_network(network)


@group.command("list", help="List the blocked networks.")
@json_option
def _list(as_json: bool) -> None:
    for network, block in blocks.list_networks():
        line = f"{network} {block.created_at} {json.dumps(block.reason)}"
        print(json.dumps({"network": network, **block.to_record()}) if as_json else line)
