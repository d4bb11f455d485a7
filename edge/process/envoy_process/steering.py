"""Steers new connections to another process that listens at the same ports, before this process closes them.

With the first packet of a connection, the system assigns it to one of the listening sockets of the port. If that socket
closes before its process has accepted the connection, the connection is reset, although another process listens. (With
the sysctl net.ipv4.tcp_migrate_req the system moves such connections. It is off by default.)
"""

import ctypes
import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_SO_ATTACH_REUSEPORT_CBPF = 51
_SYS_PIDFD_GETFD = 438  # pidfd_getfd has this number on all architectures
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_INSTRUCTION = struct.Struct("=HBBI")  # the layout of a classic BPF instruction
_LOAD, _RANDOM = 0x20, 0xFFFFF038  # load a random number: BPF_LD | BPF_W | BPF_ABS of SKF_AD_OFF + SKF_AD_RANDOM
_MODULO, _ADD, _RETURN = 0x94, 0x04, 0x16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def steer_away(pid: int) -> None:
    """Steer new connections away from a child process, to other processes at its ports. Raises OSError.

    A port on which only the child listens is left unchanged. The other processes must have begun to listen later than
    the child, because the kernel numbers the sockets of a port in the order in which they began to listen.
    """
    descriptors = _list_sockets(pid)
    process = os.pidfd_open(pid)
    try:
        for inodes in _list_inodes():
            numbers = [descriptors[inode] for inode in inodes if inode in descriptors]
            if numbers and len(numbers) < len(inodes):
                _steer(process, numbers[0], len(numbers), len(inodes) - len(numbers))
    finally:
        os.close(process)


def _list_sockets(pid: int) -> dict[str, int]:
    """Return the file descriptors of a process's sockets, by inode."""
    descriptors = {}
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = _SOCKET.fullmatch(os.readlink(file))
        except FileNotFoundError:  # the process has closed the descriptor meanwhile
            continue
        if target:
            descriptors[target[1]] = int(file.name)
    return descriptors


def _list_inodes() -> Iterator[list[str]]:
    """Yield the inodes of the listening sockets at each TCP address.

    An address is an IP address with a port.
    """
    for table in ("tcp", "tcp6"):
        by_address: dict[str, list[str]] = {}
        with Path(f"/proc/net/{table}").open() as lines:
            next(lines)
            for fields in map(str.split, lines):
                if fields[3] != _LISTEN:  # in /proc/net/tcp, all listening sockets precede the other sockets
                    break
                by_address.setdefault(fields[1], []).append(fields[9])
        yield from by_address.values()


def _steer(process: int, number: int, own_count: int, other_count: int) -> None:
    """Attach a BPF program to a port. The program gives each new connection to a socket of another process.

    `number` is a file descriptor of one of the port's sockets in `process`. The first `own_count` sockets of the port
    belong to `process`. The program returns the index of a random socket among the `other_count` sockets after them.
    When the process has closed its sockets, such an index can be invalid. The kernel then chooses a socket without the
    program.
    """
    code = ((_LOAD, _RANDOM), (_MODULO, other_count), (_ADD, own_count), (_RETURN, 0))
    instructions = ctypes.create_string_buffer(
        b"".join(_INSTRUCTION.pack(opcode, 0, 0, value) for opcode, value in code)
    )
    program = _Program(len(code), ctypes.addressof(instructions))
    library = ctypes.CDLL(None, use_errno=True)
    copy = library.syscall(_SYS_PIDFD_GETFD, process, number, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(fileno=copy) as listening:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, bytes(program))
