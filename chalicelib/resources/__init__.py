"""What the API offers: one file per table of SPEC 2.2–2.8, named as its path."""

from chalicelib.api.resource import Resource
from chalicelib.resources.api_keys import API_KEYS
from chalicelib.resources.bot_users import BOT_USERS
from chalicelib.resources.certificate_authorities import CERTIFICATE_AUTHORITIES
from chalicelib.resources.http_response_backends import HTTP_RESPONSE_BACKENDS
from chalicelib.resources.ssh_certificate_authorities import SSH_CERTIFICATE_AUTHORITIES
from chalicelib.resources.ssh_credentials import SSH_CREDENTIALS
from chalicelib.resources.ssh_user_certificates import SSH_USER_CERTIFICATES
from chalicelib.resources.tls_certificates import TLS_CERTIFICATES
from chalicelib.resources.tunnel_groups import TUNNEL_GROUPS
from chalicelib.resources.tunnels import TUNNELS
from chalicelib.resources.weighted_backends import WEIGHTED_BACKENDS

ALL: tuple[Resource, ...] = (
    API_KEYS,
    BOT_USERS,
    CERTIFICATE_AUTHORITIES,
    HTTP_RESPONSE_BACKENDS,
    SSH_CERTIFICATE_AUTHORITIES,
    SSH_CREDENTIALS,
    SSH_USER_CERTIFICATES,
    TLS_CERTIFICATES,
    TUNNEL_GROUPS,
    TUNNELS,
    WEIGHTED_BACKENDS,
)
