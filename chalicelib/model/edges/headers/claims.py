"""Headers that upstreams trust because a proxy usually sets them. Visitors and accounts must not set them. Does no I/O.

In a pattern, `-` matches any character except letters and digits: CGI and WSGI do not distinguish `_` from `-`, and
some servers distinguish none of these characters.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

_OWN = "tunnel-auth-.*"  # headers that only the edge sets; the setting `keep_headers` cannot admit them
_PATTERNS = (
    # Headers with the visitor's address, scheme and host: RFC 7239, nginx, HAProxy, IIS, WebLogic (WL-Proxy-…), Envoy.
    # Upstreams read them with request-ip and fastify-ip (npm), python-ipware, chi's RealIP, Rack, Symfony, and
    # ForwardedHeaderFilter of Spring.
    "(x-)?forwarded(-.*)?",
    "(.*-)?client-?ip",
    "(.*-)?connecting-ip(v6)?",
    "(.*-)?real-(ip|port|host|ur[il]|scheme)",
    "(.*-)?user-ip",
    "x-proxyuser-ip",
    "(x-)?remote-.*",  # for example Remote-User (Authelia), Remote-Addr, and X-Remote-Extra-… (Kubernetes)
    "x-(envoy|arr)-.*",
    "wl-proxy-.*",
    "(x-)?(url-)?scheme",
    "x-(proto|protocol|https)",
    "front-end-https",
    "x-host",
    "x-http-host-override",
    # Headers of CDNs and clouds with the visitor's address, scheme or host: Cloudflare, Fastly, CloudFront, Azure,
    # Vercel, App Engine.
    "cf-(ipcountry|pseudo-ipv4|visitor|worker|access-(authenticated-user-email|jwt-assertion))",
    "fastly-ssl",
    "cloudfront-(viewer|forwarded|is)-.*",
    "x-azure-(socketip|fdid)",
    "x-vercel-(forwarded|proxied|ip)-.*",
    "x-nf-client-connection-ip",
    "x-appengine-.*",
    # Headers with the requested path: rewritten URLs of IIS, which Symfony and Zend read (CVE-2018-14773), and the
    # path prefix of WSGI.
    "x-(original|rewrite)-.*",
    "x-request-ur[il]",
    "(x-)?script-name",
    # Headers with a client's certificate: RFC 9440, AWS, and those that Keycloak reads from nginx, Apache and HAProxy.
    "(x-)?client-(cert|certificate|verify|dn)(-.*)?",
    "(x-)?(ssl|tls)(-.*)?",
    "cert-chain(-.*)?",
    "x-amzn-(mtls|tls|oidc|lattice)-.*",
    # Headers with the signed-in user: oauth2-proxy, Grafana, authentik, Kong, Google IAP, Azure App Service, Tailscale,
    # Pomerium, Vouch, mod_auth_openidc, Shibboleth, SiteMinder, WebSEAL, Oracle, API gateways, ngrok.
    "x-(auth-request|webauth|authentik|authenticated|consumer|credential|pomerium|vouch|apigateway)-.*",
    "x-anonymous-consumer",
    "x-(endpoint-api-)?userinfo",
    "x-goog-(authenticated-user|iap)-.*",
    "x-ms-(client-principal|token)(-.*)?",
    "(x-)?tailscale-.*",
    "(oidc|shib|iv|kubeflow|ngrok-auth)-.*",
    "sm-user.*",
    "oam-remote-user",
    # Headers with the signed-in visitor of a route with OAuth: only the edge may set them.
    _OWN,
    # Headers with the tenant: Loki, Mimir, Tempo and Cortex, which authenticate by this header alone, and the
    # services of OpenStack.
    "x-scope-org-?id",
    "x-tenant-?id",
    # Headers with names similar to those above, because no list is complete. Names that end in a word such as token are
    # allowed, because upstreams verify a token.
    "x-.*user<ending>",
    "x-.*auth<ending>",
    "x-(.*-)?(e?mail|groups?|roles?|principal|identity|subject|claims|login|sso|saml|ldap|jwt|admin)($|-)<ending>",
    "(.*-)?impersonate-.*",
    "(auth|sso|logon|session)-(user|type|name|email|groups)",
    # Internal headers of programs: httpoxy (CVE-2016-5385), Rack::Sendfile (CVE-2025-61780), Next.js (CVE-2025-29927).
    "proxy",
    "x-sendfile(-.*)?",
    "x-lighttpd-send-(file|tempfile)",
    "via",
    "x-accel-.*",
    "x-middleware-.*",
    "x-matched-path",
)

# Names with one of these endings may be sent by visitors, although the patterns above would match them. Examples are
# X-Authorization, and X-User-Agent of gRPC-Web.
_PASSING = ("token", "key", "secret", "signature", "orization", "agent")
_FIRST, _LAST = "!", "~"  # the lowest and the highest ASCII character that the name of a header can contain

# The expression has ASCII ranges instead of classes, and no capturing groups: Envoy compiles the expression for each
# listener, and compiles this form 0.1 ms faster.
_READ_AS = {"-": "[!-/:-`{-~]", ".": "[!-~]", "(": "(?:"}
# Patterns with the same beginning are joined to make the expression shorter, because Envoy has a copy of the expression
# for each special name: a host or port that Envoy must know before a visitor comes.
_BEGINNINGS = ("(.*-)?", "(x-)?", "x-", "")
_ENDINGS = ("<ending>", "(-.*)?", "-.*", "")


def _join(patterns: Iterable[str]) -> str:
    """Join patterns to one pattern that matches if any of them matches. Common beginnings and endings are merged."""
    groups: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pattern in patterns:
        beginning = next(prefix for prefix in _BEGINNINGS if pattern.startswith(prefix))
        ending = next(suffix for suffix in _ENDINGS if pattern.endswith(suffix))
        groups[beginning][ending].append(pattern.removeprefix(beginning).removesuffix(ending))
    return "|".join(f"{beginning}({_join_endings(by_ending)})" for beginning, by_ending in groups.items())


def _join_endings(by_ending: Mapping[str, Sequence[str]]) -> str:
    return "|".join(f"({'|'.join(patterns)}){ending}" for ending, patterns in by_ending.items())


def _exclude_endings(words: Sequence[str]) -> str:
    """Return a regular expression for all texts that do not end in one of the words."""
    last = sorted({word[-1] for word in words})
    before = {sign: [word[:-1] for word in words if word[-1] == sign] for sign in last}
    longer = [_exclude_endings(rest) + sign for sign, rest in before.items() if "" not in rest]
    return f"(?:{'|'.join(['', f'[!-~]*[{_list_others(last)}]', *longer])})"


def _list_others(signs: Sequence[str]) -> str:
    """Return the ranges of all characters of header names, except the given letters. The letters must be sorted."""
    begins = [_FIRST, *(chr(ord(sign) + 1) for sign in signs)]
    ends = [*(chr(ord(sign) - 1) for sign in signs), _LAST]
    return "".join(f"{begin}-{end}" for begin, end in zip(begins, ends, strict=True) if begin <= end)


def _translate(pattern: str) -> str:
    return re.sub(r"[-.(]", lambda match: _READ_AS[match[0]], pattern)


REGEX = _translate(_join(_PATTERNS)).replace("<ending>", _exclude_endings(_PASSING))
OWN_REGEX = _translate(_OWN)
