"""A client that uses libssh: opens one tunnel and answers one connection to it with a greeting.

Arguments: the gateway's port, a file with a private key, the host and the port to listen on.
"""

import ctypes
import sys

_HOST, _PORT, _USER, _KNOWN_HOSTS = 0, 1, 4, 8  # enum ssh_options_e
_TIMEOUT_MS = 20_000
_NAMES = (
    "ssh_new",
    "ssh_get_error",
    "ssh_get_issue_banner",
    "ssh_channel_accept_forward",
)  # these return a pointer, all others an int

_ssh = ctypes.CDLL("libssh.so.4")
for _name in _NAMES:
    getattr(_ssh, _name).restype = ctypes.c_void_p


def main(port: str, key_file: str, host: str, listen_port: str) -> None:
    session = ctypes.c_void_p(_ssh.ssh_new())
    for option, value in ((_HOST, "127.0.0.1"), (_USER, "libssh"), (_KNOWN_HOSTS, "/dev/null")):
        _check(session, _ssh.ssh_options_set(session, option, ctypes.c_char_p(value.encode())))
    _check(session, _ssh.ssh_options_set(session, _PORT, ctypes.byref(ctypes.c_uint(int(port)))))
    _check(session, _ssh.ssh_connect(session))
    key = ctypes.c_void_p()
    _check(session, _ssh.ssh_pki_import_privkey_file(key_file.encode(), None, None, None, ctypes.byref(key)))
    _check(session, _ssh.ssh_userauth_publickey(session, None, key))
    _check(session, _ssh.ssh_channel_listen_forward(session, host.encode(), int(listen_port), None))
    print("is listening", flush=True)
    _answer(session)
    _ssh.ssh_disconnect(session)


def _answer(session: ctypes.c_void_p) -> None:
    channel_pointer = _ssh.ssh_channel_accept_forward(session, _TIMEOUT_MS, None)
    if not channel_pointer:
        sys.exit(_error(session))
    channel, buffer = ctypes.c_void_p(channel_pointer), ctypes.create_string_buffer(1000)
    while (count := _ssh.ssh_channel_read(channel, buffer, len(buffer), 0)) > 0:
        _ssh.ssh_channel_write(channel, buffer, count)
    _ssh.ssh_channel_send_eof(channel)
    _ssh.ssh_channel_close(channel)


def _check(session: ctypes.c_void_p, result: int) -> None:
    if result:
        sys.exit(_error(session))


def _error(session: ctypes.c_void_p) -> str:
    banner = _ssh.ssh_get_issue_banner(session)
    texts = [ctypes.string_at(banner or b""), ctypes.string_at(_ssh.ssh_get_error(session))]
    return "\n".join(text.decode() for text in texts if text)


if __name__ == "__main__":
    main(*sys.argv[1:])
