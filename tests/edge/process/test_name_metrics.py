"""The metrics of loaded names, as Prometheus reads them."""

import asyncio

from edge.process.name_metrics import REASONS, RESULTS, NameMetrics


def lines(metrics: NameMetrics) -> list[str]:
    text = asyncio.run(metrics.read()).decode()
    return [it for it in text.splitlines() if not it.startswith("#")]


def test_each_label_begins_with_0() -> None:
    found = lines(NameMetrics(1000))
    assert "edge_names_limit_bytes 1000.0" in found
    labels = [f'edge_name_loads_total{{result="{it}"}} 0.0' for it in RESULTS]
    labels += [f'edge_names_refused_total{{reason="{it}"}} 0.0' for it in REASONS]
    assert [it for it in found if "_total{" in it] == labels
    assert [it for it in found if "created" in it] == []


def test_loads_and_refusals_are_counted_and_only_served_names_are_timed() -> None:
    metrics = NameMetrics(1000)
    metrics.on_load("served", 0.03)
    metrics.on_load("failed", 3.0)
    metrics.on_refusal("negative")
    found = lines(metrics)
    assert [it for it in found if "_total{" in it and not it.endswith(" 0.0")] == [
        'edge_name_loads_total{result="served"} 1.0',
        'edge_name_loads_total{result="failed"} 1.0',
        'edge_names_refused_total{reason="negative"} 1.0',
    ]
    assert {"edge_name_load_seconds_count 1.0", "edge_name_load_seconds_sum 0.03"} <= {*found}
    assert [it for it in found if it.endswith(" 1.0") and 'le="0.0' in it] == [
        'edge_name_load_seconds_bucket{le="0.05"} 1.0'
    ]
