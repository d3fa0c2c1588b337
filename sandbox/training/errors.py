"""Errors of the training job; each ends the process with a code of its own.

TrainingError          1  the root
├── AskedToFail        1 or what was asked for (see `faults`)
├── PeerLost           71 a rank ended or says nothing: all end, since none can go on alone
├── NoRendezvous       72 the ranks did not find each other in time
├── Outdated           73 a newer epoch owns the checkpoints: this process must not write any more
└── Unreadable         74 the checkpoint all go on from cannot be verified here
"""

from __future__ import annotations


class TrainingError(Exception):
    """Root of what ends a rank."""

    code = 1


class AskedToFail(TrainingError):  # noqa: N818 - says what happened
    """Somebody who tries things out wants it to fail."""

    def __init__(self, code: int, told: str) -> None:
        super().__init__(told)
        self.code = code


class PeerLost(TrainingError):  # noqa: N818 - says what happened
    """A rank is gone."""

    code = 71


class NoRendezvous(TrainingError):  # noqa: N818 - says what happened
    """The ranks did not find each other."""

    code = 72


class Outdated(TrainingError):  # noqa: N818 - says what happened
    """A newer epoch owns the checkpoints."""

    code = 73


class Unreadable(TrainingError):  # noqa: N818 - says what happened
    """The chosen checkpoint cannot be read here."""

    code = 74
