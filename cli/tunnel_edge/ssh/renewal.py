"""Renews a certificate before it expires, within five seconds and without prompts.

If several processes start at the same time, only one of them renews the certificate.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tunnel_edge.errors import FAILED, CommandError
from tunnel_edge.identity import locks, profiles
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.ssh import certificates
from tunnel_edge.ssh.certificates import Request
from tunnel_edge.ssh.wire import Certificate

SECONDS = 4.5  # time limit of a renewal: with its start, the process takes at most five seconds


def ensure(profile: Profile) -> None:
    """Renew the certificate of a profile if it expires soon.

    Raises CommandError if the profile has no valid certificate, and none can be obtained.
    """
    if not profile.authority:
        raise CommandError(f"The profile '{profile.name}' has no certificate: use te ssh login.", FAILED)
    certificate = certificates.find(profile)
    if certificate is not None and not certificate.ends_soon(time.time()):
        return
    with _time_limit(certificate):
        try:
            _renew(profile.name)
        except CommandError:
            if certificate is None:
                raise


def _renew(name: str) -> None:
    """Renew the certificate, unless another process has just renewed it."""
    with locks.hold(f"ssh-{name}"):
        profile = profiles.load(name) or Profile(name)
        certificate = certificates.find(profile)
        if certificate is not None and not certificate.ends_soon(time.time()):
            return
        from tunnel_edge.identity import session

        current = session.open_session(name, timeout=SECONDS, attempts=1, may_ask=False)
        request = Request(profile.authority, profile.principals, profile.lifetime, profile.confirm, profile.uses_files)
        certificates.obtain(current, request, certificates.load_key(profile) if profile.uses_files else None)


@contextmanager
def _time_limit(certificate: Certificate | None) -> Iterator[None]:
    """End the process after SECONDS, if the block has not ended, for example because a server does not answer."""
    import threading

    def end() -> None:
        if certificate is None:
            print("te: The certificate could not be renewed within 5 seconds.", file=sys.stderr, flush=True)
        os._exit(FAILED if certificate is None else 0)

    timer = threading.Timer(SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
