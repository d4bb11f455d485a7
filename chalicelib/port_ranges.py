"""Ranges of TCP ports, in the form of the setting TCP_PORTS."""


def parse(text: str) -> range:
    """Return the ports of a text like 20000-20099, no ports for "". Raises ValueError."""
    if not text.strip():
        return range(0)
    first, _, last = text.strip().partition("-")
    ports = range(int(first), int(last or first) + 1)
    if not ports or ports[0] < 1 or ports[-1] > 65535:
        raise ValueError("TCP_PORTS must be a port or a range of ports, for example 20000-20099")
    return ports
