"""The answers to real requests, compared with the model of them: sixty worlds as accounts of one edge."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.edge.model_of_requests import Records, meets
from tests.live.edge import live_worlds
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge

pytestmark = needs_envoy


def test_requests_meet_what_the_model_says(edge: Edge) -> None:
    worlds = live_worlds.draw_worlds(60, request_count=6)
    with live_worlds.gateway(edge), ThreadPoolExecutor(4) as threads:
        edge.stop_control()  # it would read each account again after each record
        for world, _ in worlds:
            live_worlds.arrange(edge, Records(), world, 1)
        edge.start_control()
        edge.settle()
        pairs = [(request, world) for world, requests in worlds for request in requests]
        http_pairs = [pair for pair in pairs if live_worlds.is_http(*pair)]
        meetings = threads.map(
            partial(live_worlds.request_as_visitor, port=edge.settings.edge_port),
            (request for request, _ in http_pairs),
        )
        differing = [
            (request, world, meeting)
            for (request, world), meeting in zip(http_pairs, meetings, strict=True)
            if meeting not in meets(request, world)
        ]
    assert differing == []
