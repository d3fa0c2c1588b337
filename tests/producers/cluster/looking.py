"""A watcher before a real API server, in a thread of the test, and what it told so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self, TypeVar

from producers.cluster.book import Book
from producers.cluster.outbox import Outbox
from producers.cluster.settings import WatcherSettings, WatchSettings
from producers.cluster.translator import Translator
from producers.cluster.watcher import Watcher
from runtime.informer import Source
from schemas.envelope import Event, Payload, decode
from schemas.facts import FACTS
from streams.route import mailboxes
from tests.recovery.fact_contract import keeps_contract

PATIENCE = 40.0
P = TypeVar("P", bound=Payload)


class Looking:
    """Watches until the end of the `with`; then the facts told must keep the contract."""

    def __init__(self, source: Source, before: Looking | None = None) -> None:
        """`before`: whose successor this one is."""
        self._before = list(before.events) if before is not None else []
        book = before.book() if before is not None else Book()
        settings = WatcherSettings(cluster="test", watch=WatchSettings(protected_namespaces=()))
        translator = Translator(
            "test", settings.watch, book, lambda: datetime.now(UTC), recent=settings.watch.memory
        )
        self._outbox = Outbox("test", "/clusters/test/watcher/w", 1, time.time)
        self.watcher = Watcher(source, translator, self._outbox, settings, may_repeat=lambda: False)
        self.failed: BaseException | None = None
        self._events: list[Event] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.watcher.run()
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            self.failed = error

    @property
    def events(self) -> list[Event]:
        """Everything told so far."""
        self._events += [decode(entry.value) for entry in self._outbox.take(100_000)]
        return self._events

    def told(self, kind: type[P], about: str = "") -> list[P]:
        """Payloads of a kind that name `about` anywhere."""
        return [
            event.data
            for event in self.events
            if isinstance(event.data, kind) and about in event.data.model_dump_json()
        ]

    def until(self, kind: type[P], about: str, holds: Callable[[P], bool] = lambda _: True) -> P:
        """Wait until such a payload was told; the first of them."""
        ends = time.monotonic() + PATIENCE
        while True:
            assert self.failed is None, self.failed
            found = [payload for payload in self.told(kind, about) if holds(payload)]
            if found:
                return found[0]
            shown = [event.data for event in self.events if about in event.data.model_dump_json()]
            assert time.monotonic() < ends, f"no such {kind.__name__}; told were: {shown}"
            time.sleep(0.02)

    def book(self) -> Book:
        """What a successor would read."""
        found = Book()
        for event in [*self._before, *self.events]:
            found.fold(event.data)
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        ends = time.monotonic() + PATIENCE
        while not self.watcher.counted.listed:
            assert self.failed is None, self.failed
            assert time.monotonic() < ends, "not everything was listed"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert self.failed is None
        facts = [
            (subject, event.data)
            for event in [*self._before, *self.events]
            if isinstance(event.data, FACTS)
            for subject in mailboxes(event.data)
        ]
        keeps_contract(facts)
