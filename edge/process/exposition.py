"""Joins the metrics of several processes to one text in Prometheus's text format. This file does no I/O."""

import re
from collections.abc import Iterable, Mapping

_SAMPLE = re.compile(rb"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)


def join_instances(texts: Mapping[str, bytes]) -> bytes:
    """Join the metrics of the instances of a process to one text.

    `texts` has the metrics by instance. The label `edge_instance` is added for the instances a and b.
    """
    return _join(_label(text, instance) if instance else text for instance, text in texts.items())


def _label(text: bytes, instance: str) -> bytes:
    """Return metrics with the label `edge_instance` added to each sample."""
    label = f'edge_instance="{instance}"'.encode()
    return _SAMPLE.sub(lambda sample: b"%b{%b} " % (sample[1], b",".join(filter(None, (label, sample[2])))), text)


def _join(texts: Iterable[bytes]) -> bytes:
    """Join metrics to one text. The text has the HELP and TYPE of each metric once, before all its samples."""
    metrics: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for text in texts:
        name = b""
        for line in filter(None, text.splitlines()):
            if line.startswith(b"# "):
                name = line.split(b" ")[2]
            descriptions, samples = metrics.setdefault(name, ([], []))
            if not line.startswith(b"# "):
                samples.append(line)
            elif line not in descriptions:
                descriptions.append(line)
    return b"".join(b"%b\n" % line for lists in metrics.values() for lines in lists for line in lines)
