"""The metrics of loaded names, as Prometheus reads them."""

import asyncio

from edge.process.name_metrics import REASONS, RESULTS, NameMetrics


def lines(metrics: NameMetrics) -> list[str]:
    text = asyncio.run(metrics.read()).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_each_label_begins_with_0() -> None:
    metric_lines = lines(NameMetrics(1000))
    assert "edge_names_limit_bytes 1000.0" in metric_lines
    labels = [f'edge_name_loads_total{{result="{result}"}} 0.0' for result in RESULTS]
    labels += [f'edge_names_refused_total{{reason="{reason}"}} 0.0' for reason in REASONS]
    assert [line for line in metric_lines if "_total{" in line] == labels
    assert [line for line in metric_lines if "created" in line] == []


def test_loads_and_refusals_are_counted_and_only_served_names_are_timed() -> None:
    metrics = NameMetrics(1000)
    metrics.on_load("served", 0.03)
    metrics.on_load("failed", 3.0)
    metrics.on_refusal("negative")
    metric_lines = lines(metrics)
    assert [line for line in metric_lines if "_total{" in line and not line.endswith(" 0.0")] == [
        'edge_name_loads_total{result="served"} 1.0',
        'edge_name_loads_total{result="failed"} 1.0',
        'edge_names_refused_total{reason="negative"} 1.0',
    ]
    assert {"edge_name_load_seconds_count 1.0", "edge_name_load_seconds_sum 0.03"} <= {*metric_lines}
    assert [line for line in metric_lines if line.endswith(" 1.0") and 'le="0.0' in line] == [
        'edge_name_load_seconds_bucket{le="0.05"} 1.0'
    ]
