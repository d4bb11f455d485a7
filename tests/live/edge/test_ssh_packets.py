"""How packets of SSH are read off what came in."""

import asyncio

import asyncssh
import pytest
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_CHANNEL_EOF
from asyncssh.encryption import GCMEncryption
from asyncssh.packet import Boolean, Byte, String, UInt32

from edge.ssh.asyncssh_internals import Gcm
from edge.ssh.data.packets import Unread, guess_is_wrong, parse_channel_data
from tests.live.edge.link_clients import Link, count_bytes, serving
from tests.live.edge.running import Edge, until


def gcm() -> GCMEncryption:
    return GCMEncryption.new("aes128-gcm", b"k" * 16, b"i" * 12)


def test_what_came_in_is_taken_off_from_the_front() -> None:
    unread = Unread()
    unread += b"SSH-2.0-x\r\n"
    assert (len(unread), unread.find(b"\n", 0, 100), unread.find(b"\n", 0, 5)) == (11, 10, -1)
    assert unread[:4] == b"SSH-"
    assert unread[4:] is unread
    unread += b"more"
    assert (unread[:3], unread[3:7], len(unread)) == (b"2.0", b"-x\r\n", 11)
    assert not unread[11:]
    unread += b"again"
    assert unread[:5] == b"again"


def test_a_head_that_was_taken_off_stands_before_what_is_behind_it() -> None:
    unread = Unread()
    unread += b"....headrest"
    assert unread[4:][:4] == b"head"
    assert unread[4:] is unread
    assert bytes(unread.join_head(b"head", 4)) == b"headrest"
    unread += b"more"
    assert bytes(unread.join_head(b"head", 6)) == b"headrestmo"


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (Byte(4) + Byte(MSG_CHANNEL_DATA) + UInt32(7) + String("data") + b"pads", (7, b"data")),
        (Byte(5) + Byte(MSG_CHANNEL_DATA) + UInt32(7) + String("data") + b"pads", None),
        (Byte(4) + Byte(MSG_CHANNEL_DATA) + UInt32(7) + UInt32(9) + b"datapads", None),
        (Byte(4) + Byte(MSG_CHANNEL_DATA) + UInt32(7), None),
        (Byte(4) + Byte(MSG_CHANNEL_EOF) + UInt32(7) + b"pads", None),
        (b"\x04", None),
        (None, None),
    ],
)
def test_the_data_of_a_channel_is_found_where_a_packet_is_one_and_whole(
    packet: bytes | None, expected: tuple[int, bytes] | None
) -> None:
    assert parse_channel_data(packet) == expected


def kexinit(key_exchanges: str, host_keys: str, *, guesses: bool) -> bytes:
    """Return a KEXINIT with one cipher."""
    rest = [
        String(name) for name in ("aes128-ctr", "aes128-ctr", "hmac-sha2-256", "hmac-sha2-256", "none", "none", "", "")
    ]
    return b"".join([Byte(20), bytes(16), String(key_exchanges), String(host_keys), *rest, Boolean(guesses), UInt32(0)])


@pytest.mark.parametrize(
    ("key_exchanges", "host_keys", "guesses", "is_wrong"),
    [
        ("mlkem768x25519-sha256,curve25519-sha256", "ssh-ed25519", True, False),
        ("mlkem768x25519-sha256", "ssh-ed25519,ssh-rsa", True, False),
        ("curve25519-sha256", "ssh-ed25519", True, True),  # dropbear: both sides agree on it, neither prefers it
        ("curve25519-sha256,mlkem768x25519-sha256", "ssh-ed25519", True, True),
        ("mlkem768x25519-sha256", "ssh-rsa,ssh-ed25519", True, True),
        ("curve25519-sha256", "ssh-ed25519", False, False),
        ("", "", True, True),
    ],
)
def test_a_guess_is_right_if_both_sides_prefer_the_same(
    key_exchanges: str, host_keys: str, guesses: bool, is_wrong: bool
) -> None:
    server = kexinit("mlkem768x25519-sha256,curve25519-sha256,ext-info-s", "ssh-ed25519", guesses=False)
    assert guess_is_wrong(kexinit(key_exchanges, host_keys, guesses=guesses), server) == is_wrong


def test_a_packet_is_opened_where_it_is_the_sender_s_and_the_next_one_after_it() -> None:
    sender, receiver = gcm(), Gcm(gcm())
    for text in (b"first", b"second"):
        packet, mac = sender.encrypt_packet(0, UInt32(len(text)), text)
        assert receiver.decrypt_header(0, packet[:16], 4) == (packet[:16], packet[:4])
        assert receiver.open(memoryview(packet + mac)) == text
        assert receiver.decrypt_packet(0, packet[:16], packet[16:], 4, mac) == text
    packet, mac = sender.encrypt_packet(0, UInt32(5), b"third")
    assert receiver.open(packet + bytes(16)) is None


@pytest.mark.parametrize("cipher", ["aes256-gcm@openssh.com", "aes128-ctr"])
def test_a_client_that_is_not_openssh_has_the_cipher_that_it_prefers(edge: Edge, cipher: str) -> None:
    async def ask() -> bytes:
        key = edge.key("acct_A")
        options = {"client_keys": [str(key.file)], "known_hosts": None, "config": None, "encryption_algs": [cipher]}
        async with asyncssh.connect("127.0.0.1", edge.settings.ssh_port, **options) as client:
            with serving(count_bytes) as port:
                await client.forward_remote_port("", edge.settings.tcp_ports[0], "127.0.0.1", port)
                (id,) = edge.store.online
                return await asyncio.to_thread(_send, edge, id)

    assert asyncio.run(ask()) == b"1000000 bytes"
    until(lambda: not edge.store.online)


def _send(edge: Edge, tunnel: str) -> bytes:
    """Return the answer to a megabyte."""
    link = Link(edge, tunnel)
    link.send(b"x" * 1_000_000)
    link.end()
    return link.read()
