"""The processes that `make edge` runs."""

from edge.process import supervisor
from edge.process.settings import Settings


def test_a_host_has_a_sign_in_service_unless_it_uses_those_of_other_hosts() -> None:
    assert supervisor.choose_parts(Settings()) == ("control", "gateway", "sign-in", "Envoy")
    linked = Settings(sign_in_hosts=(("10.0.0.5", 4440),))
    assert supervisor.choose_parts(linked) == ("control", "gateway", "Envoy")
