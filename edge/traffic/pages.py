"""The pages that a browser shows when no tunnel answers a request."""

NO_TUNNEL = "404: there is no tunnel of this name.\n"
NO_ANSWER = "502: the tunnel is open, but what it forwards to does not answer.\n"
MISDIRECTED = "421: this connection is for another name; open one of its own.\n"
