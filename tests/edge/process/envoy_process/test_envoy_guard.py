"""When an Envoy that collects requests for certificates is restarted."""

import pytest

from edge.process.envoy_process.envoy_guard import RequestedCertificates, count_certificates


@pytest.mark.parametrize(
    ("checks", "is_restarted"),
    [
        ([(0, 20_000), (31, 69_999)], False),
        ([(0, 20_000), (31, 70_000)], True),
        ([(0, 20_000), (29, 70_000)], False),
        ([(0, 20_000), (12, 60_000), (31, 70_000)], True),
        ([(0, 20_000), (6, 70_000), (11, 70_001), (40, 110_000)], False),
        ([(0, 20_000), (31, 60_000), (1, 60_000), (31, 70_000)], False),
        ([(0, 200_000), (3600, 200_000)], False),
    ],
)
def test_envoy_is_restarted_if_certificates_pile_up_without_control(
    checks: list[tuple[float, int]], is_restarted: bool
) -> None:
    requested = RequestedCertificates()
    assert [requested.is_too_many(*check) for check in checks][-1] is is_restarted


def test_requested_certificates_are_summed_over_the_listeners() -> None:
    text = (
        "# TYPE envoy_listener_on_demand_secret_cert_active gauge\n"
        'envoy_listener_on_demand_secret_cert_active{envoy_listener_address="https"} 12\n'
        "envoy_on_demand_secret_cert_active{} 30\n"
        "envoy_on_demand_secret_cert_requested{} 99\n"
    )
    assert count_certificates(text) == 42
