"""Facts about a user. Decides whether the OAuth rule of a route admits the user. This file does no I/O."""

from dataclasses import dataclass

from chalicelib.model.edges.sign_in_rules import SignInRule

_MAX_ADDRESS = 254  # the most characters of an e-mail address
_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})


@dataclass(frozen=True)
class Facts:
    """The facts that a provider reports about a user. `addresses` are e-mail addresses that count as verified.

    `teams` have the form "organization/slug". `teams` and `organizations` are the GitHub teams and organizations that
    the OAuth rule names and in which the user is an active member.
    """

    subject: str
    addresses: tuple[str, ...] = ()
    name: str = ""
    teams: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Permission:
    """The permission of a user to pass.

    `address` is the e-mail address that the rule admits. If the rule admits the user for another reason, `address` is
    the user's first address, or "".
    """

    address: str = ""


def admit(facts: Facts, rule: SignInRule) -> Permission | None:
    """Return a permission if the user matches the OAuth rule of a route. Otherwise return None.

    The rule lists e-mail addresses, e-mail domains, teams and organizations. One matching entry is enough. If all lists
    are empty, every user may pass.
    """
    addresses = [address for address in facts.addresses if is_address(address)]
    first = addresses[0] if addresses else ""
    if rule.is_open_to_all:
        return Permission(first)
    rule_addresses, domains = _fold_all(rule.email_addresses), _fold_all(rule.email_domains)
    for address in addresses:
        if fold(address) in rule_addresses or fold(address).rpartition("@")[2] in domains:
            return Permission(address)
    teams = _fold_all(rule.teams) & _fold_all(facts.teams)
    organizations = _fold_all(rule.organizations) & _fold_all(facts.organizations)
    return Permission(first) if teams or organizations else None


def is_address(text: str) -> bool:
    """Return whether a text can be an e-mail address: printable ASCII with one `@` and no spaces."""
    printable = text.isascii() and text.isprintable() and " " not in text
    return printable and text.count("@") == 1 and len(text) <= _MAX_ADDRESS and not text.startswith("@")


def fold(text: str) -> str:
    """Return a text with ASCII letters in lower case. Other letters stay: `ſ` does not become `s`."""
    return text.translate(_LOWER)


def _fold_all(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(fold, texts))
