"""Metrics and health are served on the loopback interface, and health says what is wrong with the right status."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from runtime.health import Health
from runtime.metrics import MetricsServer, StreamMetrics


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_and_health_are_served() -> None:
    metrics, health = StreamMetrics("test"), Health()
    metrics.applied.inc(3)
    with MetricsServer(metrics.registry, health, host="127.0.0.1", port=0) as server:
        status, text = fetch(server.port, "/metrics")
        assert status == 200
        assert "relight_test_applied_total 3.0" in text
        assert fetch(server.port, "/healthz") == (200, "ok\n")

        health.add("loop", lambda: "stuck")
        assert fetch(server.port, "/healthz") == (503, "loop: stuck\n")


def test_an_ended_server_lets_its_port_go() -> None:
    with MetricsServer(StreamMetrics("test").registry, Health(), host="127.0.0.1", port=0) as server:
        port = server.port

    with pytest.raises(urllib.error.URLError):
        fetch(port, "/healthz")


def test_two_stages_of_one_process_do_not_share_numbers() -> None:
    one, two = StreamMetrics("one"), StreamMetrics("one")
    one.applied.inc()

    assert two.registry.get_sample_value("relight_one_applied_total") == 0


def test_a_partition_that_left_shows_nothing_any_more() -> None:
    metrics = StreamMetrics("test")
    metrics.lag.labels("t", "1").set(5)
    metrics.forget_partition("t", 1)
    metrics.forget_partition("t", 2)

    assert (
        metrics.registry.get_sample_value("relight_test_lag_messages", {"topic": "t", "partition": "1"})
        is None
    )
