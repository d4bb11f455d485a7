"""Small messages: exact durations, and packed messages that do not depend on the order of a map."""

import pytest

from edge.envoy import parts, v3
from edge.process.settings import Settings


@pytest.mark.parametrize(("value", "expected"), [(0, "0s"), (10, "10s"), (0.1, "0.100s"), (0.133, "0.133s")])
def test_a_duration_is_exact(value: float, expected: str) -> None:
    assert parts.seconds(value).ToJsonString() == expected


def test_a_packed_message_does_not_depend_on_the_order_of_its_maps() -> None:
    values = {f"name-{number}": str(number) for number in range(50)}
    first, second = parts.struct(**values), parts.struct(**dict(reversed(values.items())))
    assert parts.pack(first).value == parts.pack(second).value == first.SerializeToString(deterministic=True)


def test_a_copy_leaves_the_template_as_it_is() -> None:
    template = v3.Cluster(name="a")
    parts.copy(template).name = "b"
    assert template.name == "a"


def test_a_request_is_sent_to_a_second_service_only_if_there_are_hosts_for_it() -> None:
    hosts = (("10.0.0.5", 4440), ("10.0.0.6", 4440))
    local_authorization = parts.authorization("sign-in", 1, Settings())
    remote_authorization = parts.authorization("sign-in", 1, Settings(sign_in_hosts=hosts))
    assert not local_authorization.grpc_service.HasField("retry_policy")
    # never after the first one may have received it: a code can be exchanged once
    assert remote_authorization.grpc_service.retry_policy.retry_on == "connect-failure,refused-stream"
