"""The metrics of the sign-in service."""

import asyncio
from email.utils import formatdate

from edge.sign_in.sign_in_metrics import SignInMetrics


def test_sign_ins_checks_and_renewals_are_counted() -> None:
    counts = SignInMetrics()
    counts.on_sign_in("github", "passed", 0.2)
    counts.on_check("renewed")
    counts.on_renewal()
    counts.on_date(formatdate(0))
    counts.on_date("no date")
    lines = asyncio.run(counts.read()).decode().splitlines()
    for line in (
        'edge_oauth_sign_ins_total{outcome="passed",provider="github"} 1.0',
        'edge_oauth_sign_ins_total{outcome="rejected",provider="amazon"} 0.0',
        'edge_oauth_rechecks_total{outcome="renewed"} 1.0',
        "edge_oauth_sessions_renewed_total 1.0",
        "edge_oauth_sign_in_seconds_count 1.0",
    ):
        assert line in lines
