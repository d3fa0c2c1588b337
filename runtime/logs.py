"""Logs: one JSON object a line on standard error, with bound context, for our own code and for libraries alike.

Text from jobs and messages is data in a field, never part of the format; control characters are escaped by JSON itself (design 11).
"""

from __future__ import annotations

import logging
import sys
from typing import Final, TextIO

import structlog

NOISY: Final = ("aiokafka", "faust", "mode")
"""Libraries whose INFO describes their insides; they speak from WARNING on unless the level is DEBUG."""


def configure(level: str, *, stream: TextIO | None = None) -> None:
    """Send everything to `stream` (standard error) from `level` on. Call once, when a process starts."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(level if level == "DEBUG" else logging.WARNING)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Logger of one module."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
