"""What the actuators count. Labels are few and bounded: step, action, result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from actuators.notify import NO_OBJECT
from schemas.commands import Command, Outcome, StepName

PREFIX: Final = "relight_actuators_"
_SECONDS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0)


class ActuatorMetrics:
    """Counters of one process, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.outcomes = Counter(
            PREFIX + "outcomes", "Commands answered.", ("step", "result"), registry=self.registry
        )
        self.seconds = Histogram(
            PREFIX + "command_seconds",
            "From beginning a command to its outcome; 10 s is the limit.",
            ("step",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.confirmed = Counter(
            PREFIX + "confirmed", "Outcomes the broker confirmed.", registry=self.registry
        )
        self.unreadable = Counter(
            PREFIX + "unreadable", "Messages that are no command for this cluster.", registry=self.registry
        )
        self.dropped = Counter(
            PREFIX + "handed_over",
            "Commands read and left to the partition's next owner.",
            registry=self.registry,
        )
        self.without_object = Counter(
            PREFIX + "notices_without_object",
            "Notices whose object has gone, or that have none: they stand in the log only.",
            registry=self.registry,
        )
        self._in_flight = Gauge(
            PREFIX + "in_flight", "Commands taken and not confirmed.", registry=self.registry
        )
        self._lost_words = Gauge(
            PREFIX + "events_lost", "Kubernetes Events that could not be written.", registry=self.registry
        )

    def count(self, command: Command, outcome: Outcome, seconds: float) -> None:
        """One command was answered."""
        self.outcomes.labels(command.step.value, outcome.result.value).inc()
        self.seconds.labels(command.step.value).observe(seconds)
        if command.step is StepName.NOTIFY and outcome.cause == NO_OBJECT:
            self.without_object.inc()

    def watch(self, in_flight: Callable[[], float], lost_words: Callable[[], float]) -> None:
        """Numbers that are read when asked for."""
        self._in_flight.set_function(in_flight)
        self._lost_words.set_function(lost_words)
