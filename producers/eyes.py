"""Which sources a node agent runs, made from its settings; the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from producers.chips import KnownChips, NvidiaDriverChips
from producers.edges import Edges
from producers.http_get import http_get
from producers.identity import Identity
from producers.kernel_clock import boot_time_by_clocks
from producers.kernel_faults import KernelFaults
from producers.kernel_log import BOOT_ID, KernelLog, KernelLogReader
from producers.kernel_log import NAME as KERNEL_LOG
from producers.kernel_log_file import KernelLogFile, LineReader
from producers.mapping import load_mapping
from producers.observation import Source
from producers.prometheus_scrape import Fetch, PrometheusScrape
from producers.settings import SourceSettings

Now = Callable[[], datetime]


def read_boot_id(path: Path = BOOT_ID) -> str:
    """Id of this boot of the machine."""
    return path.read_text(encoding="ascii").strip()


def make_sources(settings: SourceSettings, identity: Identity, now: Now) -> list[Source]:
    """Sources in the order they are started. Raises MappingError for a wrong mapping table."""
    sources: list[Source] = []
    if settings.kernel_log:
        sources.append(_kernel_log(settings, identity, now))
    sources += [_kernel_log_file(path, settings, identity, now) for path in settings.kernel_log_files]
    switched_on = {KERNEL_LOG} if settings.kernel_log or settings.kernel_log_files else set()
    for table, url in settings.exporters.items():
        mapping = load_mapping(table)
        sources.append(
            PrometheusScrape(
                f"exporter:{table}",
                _fetch(url, settings.scrape_timeout, settings.scrape_bytes),
                Edges(identity, mapping, switched_on),
                now,
                every=settings.scrape_every,
            )
        )
    return sources


def _kernel_log(settings: SourceSettings, identity: Identity, now: Now) -> Source:
    reader = KernelLogReader(
        identity,
        _faults(identity),
        boot_id=read_boot_id(),
        boot=boot_time_by_clocks(),
        history=settings.history,
    )
    return KernelLog(settings.kernel_log_device, reader, now)


def _kernel_log_file(path: Path, settings: SourceSettings, identity: Identity, now: Now) -> Source:
    local = datetime.now().astimezone().tzinfo  # what syslog writes when it names no zone
    assert local is not None  # noqa: S101 - an aware time has a zone
    reader = LineReader(identity, _faults(identity), zone=local, boot=boot_time_by_clocks())
    return KernelLogFile(path, reader, now, look_every=settings.look_every, history=settings.history)


def _faults(identity: Identity) -> KernelFaults:
    return KernelFaults(identity.node, KnownChips(resolver=NvidiaDriverChips()))


def _fetch(url: str, timeout: timedelta, max_bytes: int) -> Fetch:
    return partial(http_get, url, timeout=timeout, max_bytes=max_bytes)
