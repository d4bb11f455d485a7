"""Each undocumented part of asyncssh that the gateway relies on is still there, and is listed.

If a test fails after an upgrade of asyncssh, its message says what changed, what depends on it, and what to do.
"""

import ast
import asyncio
import inspect
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncssh
import pytest
from asyncssh import constants, encryption, logging, packet, public_key

from edge.ssh.asyncssh_internals import connection_factory
from tests.conftest import ROOT

_FILE = "edge/ssh/asyncssh_internals.py"
_PAGE = "docs/asyncssh.md"
_OWN_NAMES = {
    "_channel",
    "_deliver",
    "_flush",
    "_gathered",
    "_ignore_wrong_guess",
    "_room",
    "_wire",
}  # names that the file itself defines


@dataclass(frozen=True)
class Private:
    """An undocumented name of an object; `parameters` are those of a function or method, without `self`."""

    of: str
    name: str
    why: str
    parameters: str | None = None


PRIVATES = [
    # What the gateway calls or replaces in a connection
    Private("connection", "_finish_recv_packet", "to end a packet of data", "pkttype seq _task is_async"),
    Private("connection", "_make_global_request", "to know that no variable is on its way", "request args"),
    Private("connection", "_process_tcpip_forward_global_request", "to read the host as the client wrote it", "packet"),
    Private("connection", "_recv_packet", "to decrypt packets of data in less time", ""),
    Private("connection", "_send", "to write several packets with one system call", "data"),
    Private("connection", "_send_kexinit", "to offer OpenSSH only AES-GCM", ""),
    Private("connection", "process_packet", "to apply the rule for wrong guesses", "pkttype pktid packet"),
    Private("connection", "send_packet", "to leave out empty packets", "pkttype args handler"),
    Private("connection", "validate_public_key", "to learn which key signed", "username key_data msg signature"),
    # Attributes of a connection
    Private("connection", "_auth_complete", "to accept data only after the sign-in"),
    Private("connection", "_channels", "to find the channel of a packet"),
    Private("connection", "_client_kexinit", "to apply the rule for wrong guesses"),
    Private("connection", "_client_version", "to recognise OpenSSH"),
    Private("connection", "_enc_algs", "to offer OpenSSH only AES-GCM"),
    Private("connection", "_global_request_queue", "to bound the requests of a client"),
    Private("connection", "_ignore_first_kex", "to ignore the packet after a wrong guess"),
    Private("connection", "_inpbuf", "to parse received bytes without copies"),
    Private("connection", "_loop", "to write several packets with one system call"),
    Private("connection", "_owner", "to report events to the session"),
    Private("connection", "_packet", "to decrypt packets of data in less time"),
    Private("connection", "_pktlen", "to decrypt packets of data in less time"),
    Private("connection", "_recv_blocksize", "to decrypt packets of data in less time"),
    Private("connection", "_recv_encryption", "to decrypt packets of data in less time"),
    Private("connection", "_recv_macsize", "to decrypt packets of data in less time"),
    Private("connection", "_recv_seq", "to end a packet of data"),
    Private("connection", "_server_kexinit", "to apply the rule for wrong guesses"),
    # Channels
    Private("channel", "_accept_data", "to pass data on", "data datatype"),
    Private("channel", "_deliver_data", "to count what waits as part of the window", "data datatype"),
    Private("channel", "_env", "to read one variable, and store none"),
    Private("channel", "_init_recv_window", "to widen the window of a fast channel"),
    Private("channel", "_request_queue", "to know that no variable waits to be handled"),
    Private("channel", "_recv_state", "to pass data only to open channels"),
    Private("channel", "_session", "to pass data on"),
    Private("channel", "send_packet", "to widen the window", "pkttype args"),
    Private("channel", "_recv_window", "to leave data beyond the window to asyncssh"),
    # Ciphers and certificates
    Private("gcm", "_cipher", "to read the key of a cipher"),
    Private("gcm cipher", "_iv", "to decrypt packets of data in less time"),
    Private("gcm cipher", "_key", "to decrypt packets of data in less time"),
    Private("gcm cipher", "_update_iv", "to decrypt packets of data in less time", ""),
    Private("certificate", "_key_id", "to find the user certificate of a client"),
    # Modules and constructors that the documentation does not name
    Private("options", "construct", "to make a connection without a listener of asyncssh", "options kwargs"),
    Private("constants", "MSG_CHANNEL_WINDOW_ADJUST", "to widen the window"),
    Private("constants", "MSG_IGNORE", "to leave out empty packets"),
    Private("constants", "MSG_KEXINIT", "to apply the rule for wrong guesses"),
    Private("encryption", "Encryption", "to replace a cipher"),
    Private("encryption", "GCMEncryption", "to recognise AES-GCM"),
    Private("encryption", "encryption_needs_mac", "to offer OpenSSH only AES-GCM", "enc_alg"),
    Private("logging", "SSHLogger", "to format no lines below warnings"),
    Private("packet", "SSHPacket", "to read a forwarding request"),
    Private("packet", "UInt32", "to widen the window"),
    Private("public_key", "decode_ssh_certificate", "to find the user certificate of a client", "data comment"),
]


@cache
def owners() -> dict[str, Any]:
    """Return an object of asyncssh for each name in `Private.of`."""
    return asyncio.run(_owners())


async def _owners() -> dict[str, Any]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    options = await asyncssh.SSHServerConnectionOptions.construct(None, server_host_keys=[key], gss_host=None)
    connection = asyncssh.SSHServerConnection(asyncio.get_running_loop(), options)
    near, far = socket.socketpair()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, near)
    channel = connection.create_tcp_channel()
    connection.abort()
    await connection.wait_closed()
    far.close()
    gcm = encryption.GCMEncryption.new("aes128-gcm", b"k" * 16, b"i" * 12)
    return {
        "connection": connection,
        "channel": channel,
        "gcm": gcm,
        "gcm cipher": gcm._cipher,
        "certificate": key.generate_user_certificate(key, "sucrt_1"),
        "options": asyncssh.SSHServerConnectionOptions,
        "constants": constants,
        "encryption": encryption,
        "logging": logging,
        "packet": packet,
        "public_key": public_key,
    }


def change(private: Private, owner: object) -> str:
    """Return what changed and what to do about it, or "" if nothing changed."""
    if not hasattr(owner, private.name):
        problem = "is gone"
    elif (now := _parameters(getattr(owner, private.name))) != private.parameters and private.parameters is not None:
        problem = f"has the parameters ({now}) instead of ({private.parameters})"
    else:
        return ""
    return (
        f"asyncssh {asyncssh.__version__}: {private.name} of the {private.of} {problem}. "
        f"{_FILE} uses it {private.why}. Compare the release with the one before, see {_PAGE} for what the gateway "
        f"expects, and change {_FILE} and this list. tests/live/edge/test_ssh_clients.py tries clients. Until then "
        "keep the version in requirements/edge.txt."
    )


def _parameters(value: object) -> str | None:
    return " ".join(inspect.signature(value).parameters) if callable(value) else None


@pytest.mark.parametrize("private", PRIVATES, ids=lambda private: f"{private.of}.{private.name}")
def test_what_the_gateway_relies_on_is_there(private: Private) -> None:
    difference = change(private, owners()[private.of])
    assert not difference, difference


def test_a_change_explains_itself() -> None:
    class Changed:
        def _recv_packet(self, data: bytes) -> None:
            pass

    reading, sending = (
        next(private for private in PRIVATES if private.name == name) for name in ("_recv_packet", "_send")
    )
    assert "_recv_packet of the connection has the parameters (data) instead of ()." in change(reading, Changed())
    assert "_send of the connection is gone. edge/ssh/asyncssh_internals.py uses it to write several packets" in change(
        sending, Changed()
    )


def test_an_import_that_is_gone_explains_itself() -> None:
    code = "from asyncssh import encryption; del encryption.GCMEncryption; import edge.ssh.asyncssh_internals"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    (last,) = result.stderr.splitlines()[-1:]
    assert last.startswith(
        f"ImportError: asyncssh {asyncssh.__version__} lacks a part that the gateway uses (cannot import name 'GCMEncr"
    )
    assert last.endswith("): see docs/asyncssh.md.")


def list_used() -> set[str]:
    """Return the private names that the file uses, with those that it imports from modules of asyncssh."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / _FILE).read_text())):
        match node:
            case ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.Constant(value=str(name)):
                if name.startswith("_") and not name.startswith("__") and name.isidentifier():
                    names.add(name)
            case ast.ImportFrom(module=str(module)) if module.startswith("asyncssh."):
                names |= {alias.name for alias in node.names}
    return names - _OWN_NAMES


def test_every_private_name_in_the_file_is_listed_and_on_the_page() -> None:
    listed_names, page = {private.name for private in PRIVATES}, (ROOT / _PAGE).read_text()
    assert list_used() - listed_names == {"_key_id"} - listed_names
    assert {name for name in listed_names if name.startswith("_")} - list_used() == set()
    assert [name for name in sorted(listed_names) if f"`{name}`" not in page] == []


def test_only_this_file_uses_undocumented_parts_of_asyncssh() -> None:
    for file in (ROOT / "edge").rglob("*.py"):
        if str(file.relative_to(ROOT)) == _FILE:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.ImportFrom(module=str(module)) if module.startswith("asyncssh"):
                    pytest.fail(f"{file} imports from {module}: move what needs it to {_FILE}.")
                case ast.Attribute(value=ast.Attribute(attr="_connection" | "_channel"), attr=name):
                    assert not name.startswith("_"), f"{file} uses {name} of asyncssh: move that to {_FILE}."


def test_a_connection_can_be_made_without_a_listener() -> None:
    async def connect() -> object:
        make = await connection_factory(server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")], gss_host=None)
        return make()

    assert isinstance(asyncio.run(connect()), asyncssh.SSHServerConnection)
