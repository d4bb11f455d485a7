"""Requests per second over persistent connections: the server of `make run` compared with Chalice's.

A request without a token measures only the server, because the app answers it without its store. A GET makes two reads
in the embedded cloud, which is slower than the server.
"""

from functools import partial

from bench import load, requests, results, servers, side_by_side
from bench.engines import Setting
from bench.results import Point, Result, Row

CLIENTS, SECONDS, ROUNDS = (1, 4, 16), 2, 3


def measure(setting: Setting) -> Result:
    key = requests.create("/api_keys", setting.token, {})["id"]
    rates = {
        "without the store": partial(load.rate, path="/api_keys", headers={"Service-Version": "2"}, status=401),
        "GET one": partial(load.rate, path=f"/api_keys/{key}", headers=requests.headers(setting.token)),
    }
    rows: list[Row] = []
    points: list[Point] = []
    with servers.ours() as ours, servers.stock() as stock:
        for name, rate in rates.items():
            for clients in CLIENTS:
                actions = [partial(rate, url, clients=clients, seconds=SECONDS) for url in (ours.url, stock.url)]
                mine, theirs = side_by_side.medians_of(actions, ROUNDS)
                figure = f"local server, {name}, {clients} client{'s' * (clients > 1)}: chalice local"
                is_bound = clients == 1 and name == "without the store"
                row = partial(results.at_least, 50) if is_bound else results.reported
                rows.append(row(figure, mine, theirs, results.per_second))
                points.append(Point("throughput", f"{name}, make run", clients, mine))
                points.append(Point("throughput", f"{name}, chalice local", clients, theirs))
    return Result(rows, points)
