"""The cluster by which Envoy forwards HTTP-01 challenges to control. This file does no I/O."""

from edge.envoy import parts, upstream_http, v3
from edge.envoy.resources import Resource, encode
from edge.envoy.routes import CHALLENGE_CLUSTER
from edge.process.settings import Settings


def build_cluster(settings: Settings) -> Resource:
    """Return the cluster for control's socket for challenges.

    The path of the socket is relative, because Envoy runs in the socket's folder.
    """
    address = v3.Address(pipe=v3.Pipe(path=settings.challenge_socket.name))
    cluster = v3.Cluster(
        name=CHALLENGE_CLUSTER,
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment(CHALLENGE_CLUSTER, address),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        typed_extension_protocol_options={upstream_http.OPTIONS: upstream_http.SINGLE_REQUEST_HTTP1},
    )
    return encode(cluster)
