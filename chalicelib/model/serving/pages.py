"""Texts of responses to requests that no tunnel and no backend answers."""

NO_TUNNEL = "404: there is no tunnel with this name.\n"
NO_ANSWER = "502: the tunnel is open, but the server behind it does not answer.\n"
NO_CHALLENGE = "404: this name must be reserved before a certificate authority can verify it.\n"
MISDIRECTED = "421: this connection is for another host name: open a new connection.\n"
NO_ROUTE = "404: this edge has no route for the path.\n"
NO_BACKEND = "503: this route has no backend.\n"
NO_TUNNELS = "503: no tunnel of this backend is online.\n"
NOT_ENFORCED = "503: this route is closed, since the edge cannot enforce one of its modules.\n"
TOO_MANY = "503: this backend has too many requests at once.\n"
PATH = "400: this edge refuses ambiguous paths, for example with // or ;.\n"
LONG_USER_AGENT = "431: this route accepts a User-Agent of at most 512 bytes.\n"
CHANGING = "503: this route is being changed. Try again in a few seconds.\n"
NOT_AUTHENTICATED = "401: this page requires a user name and a password.\n"
MANY_GUESSES = "429: too many wrong passwords. Try again in a minute.\n"
NOT_CHECKABLE = "503: the password cannot be verified at the moment. Try again in a few seconds.\n"
NOT_SIGNED = "403: this route accepts only webhooks with a valid signature.\n"
LARGE_WEBHOOK = "413: the body of this webhook is too large.\n"
NOT_VERIFIABLE = "503: this webhook cannot be verified at the moment. Send it again.\n"
USER_AGENT = "403: this route refuses the user agent.\n"


def abuse_line(contact: str) -> str:
    """Return the last line of each page: the operator's contact for abuse.

    It starts with a newline, because Envoy's own pages do not end with one.
    """
    return f"\nReport abuse of this address to {contact}\n"
