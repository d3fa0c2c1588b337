"""Errors of this room.

ProducerError               root
├── SpoolError              the spool on disk
│   ├── SpoolFull           temporary: no room for a fault or an exit; the source waits, nothing was taken
│   └── SpoolInUse          another process works on the folder: the operator must act
├── MappingError            a mapping table is wrong: its author must act
├── ScrapeFailed            temporary: an exporter did not answer, or not with something that can be read whole
├── PlacementError          the placement file is wrong: whoever writes it must act
├── LineBroken              a supervisor's line carries something that is no line of ours: the line ends, it connects again
├── PeerUnknown             who connected cannot be told, or may not speak: refused
├── LeaseLost               another watcher speaks for the cluster: this process ends, the next begins from a list
└── PublishError            an event was not published
    ├── EventRefused        it is no valid event: whoever built it must mend it; nothing was sent
    └── DeliveryFailed      the broker did not confirm it: it may or may not have arrived, the same id again is harmless
"""

from __future__ import annotations


class ProducerError(Exception):
    """Root of everything this room raises."""


class SpoolError(ProducerError):
    """The spool on disk cannot do what it was asked for."""


class SpoolFull(SpoolError):  # noqa: N818 - says what happened; the root says that it is an error
    """No room for a fault or an exit, and no metrics left to drop. Nothing was taken: ask again later."""


class SpoolInUse(SpoolError):  # noqa: N818 - as above
    """Another process holds the folder."""


class MappingError(ProducerError):
    """A mapping table cannot be read; the message names the file, the place and what would be right."""


class ScrapeFailed(ProducerError):  # noqa: N818 - as above
    """An exporter did not answer in time, or answered with something that cannot be read whole."""


class PlacementError(ProducerError):
    """The placement file cannot be read; the message names the line and what would be right."""


class LineBroken(ProducerError):  # noqa: N818 - as above
    """A line from a pod that is no line of this version."""


class PeerUnknown(ProducerError):  # noqa: N818 - as above
    """Who is at the other end of the socket cannot be told, or is nobody who may speak."""


class LeaseLost(ProducerError):  # noqa: N818 - as above
    """Another watcher holds the Lease."""


class PublishError(ProducerError):
    """An event was not published."""


class EventRefused(PublishError):  # noqa: N818 - as above
    """It is no valid event. `place` is the field path, empty when the whole event is meant."""

    def __init__(self, reason: str, place: str = "") -> None:
        """Keep the reason and, apart from it, where in the event it applies."""
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.place = place


class DeliveryFailed(PublishError):  # noqa: N818 - as above
    """The broker did not confirm the event in time, or refused it."""
