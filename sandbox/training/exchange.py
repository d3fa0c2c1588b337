"""What the ranks do together: a star around rank 0, which hears all and answers all with the same bytes.

Guarantees: sums are made by rank 0 in the order of ranks, so every rank goes on with the same bits; a rank that is gone is `PeerLost` for rank 0
at once, whichever it waits for, and for all others as soon as they look, since rank 0 ends with it.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Sequence

from sandbox.training.errors import PeerLost
from sandbox.training.model import from_bytes, mean, to_bytes
from sandbox.training.wire import Line

Combine = Callable[[list[bytes]], bytes]
"""What rank 0 makes of everybody's bytes, in the order of ranks."""


class Exchange:
    """Rank 0 with lines to all others, or another rank with its line to rank 0."""

    def __init__(self, rank: int, lines: Sequence[Line], silence: float) -> None:
        self.rank = rank
        self._lines = list(lines)
        self._silence = silence

    def mean(self, numbers: Sequence[float]) -> tuple[float, ...]:
        """Mean over all ranks, element by element."""
        return from_bytes(self.together(to_bytes(numbers), _mean))

    def together(self, mine: bytes, combine: Combine) -> bytes:
        """Everybody gives bytes, rank 0 makes one answer of them, everybody gets it.

        Raises:
            PeerLost: a rank is gone.
        """
        if self.rank != 0:
            (line,) = self._lines
            line.send(mine)
            return line.receive()
        answer = combine([mine, *self._hear_all()])
        for line in self._lines:
            line.send(answer)
        return answer

    def close(self) -> None:
        """End all lines."""
        for line in self._lines:
            line.close()

    def _hear_all(self) -> list[bytes]:
        """One frame of each, read as they come: a line that ended is seen though another is still awaited."""
        heard: dict[int, bytes] = {}
        with selectors.DefaultSelector() as waiting:
            for index, line in enumerate(self._lines):
                waiting.register(line.connection, selectors.EVENT_READ, index)
            while len(heard) < len(self._lines):
                ready = waiting.select(self._silence)
                if not ready:
                    silent = [index + 1 for index in range(len(self._lines)) if index not in heard]
                    raise PeerLost(f"ranks {silent} said nothing for {self._silence} s")
                for key, _ in ready:
                    if key.data in heard:  # it waits for our answer: only its end can be read
                        raise PeerLost(f"rank {key.data + 1} left or spoke out of turn")
                    heard[key.data] = self._lines[key.data].receive()
        return [heard[index] for index in range(len(self._lines))]


def _mean(bodies: list[bytes]) -> bytes:
    return to_bytes(mean([from_bytes(body) for body in bodies]))
