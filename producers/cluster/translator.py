"""From differences of API objects to facts and signals: pure but for the clock it is given.

Guarantees (held by `tests/recovery/fact_contract.py`): a run is told before anything of it, a pod is bound before it ends, in two mailboxes
and in the same words each time; nothing follows a run's end; an epoch never falls. What is told depends only on what is there and on the
book of what was told, so whatever a cut watch or a dead watcher missed is told when it is next listed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from producers.cluster.agents import read_agent
from producers.cluster.book import Book
from producers.cluster.node_edges import NodeEdges
from producers.cluster.present import Present
from producers.cluster.run_edges import RunEdges
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Teller, Telling
from runtime.informer import Difference


class Translator:
    """One cluster. Not safe for use from several threads: one thread feeds it in the order of the informers."""

    def __init__(
        self,
        cluster: str,
        settings: WatchSettings,
        book: Book,
        now: Callable[[], datetime],
        *,
        recent: timedelta,
    ) -> None:
        """`recent`: how far back the book reaches; ends older than this that it does not know are old news."""
        self._teller = Teller(cluster, book, now)
        self._present = Present()
        self._nodes = NodeEdges(self._teller, self._present, settings)
        self._runs = RunEdges(self._teller, self._present, self._nodes, settings, recent=recent)
        self._sweep: deque[tuple[str, str]] = deque()

    @property
    def known(self) -> int:
        """Objects that are told of: what a sweep goes through."""
        book = self._teller.book
        return len(book.nodes) + len(self._present.objects) + len(book.pods)

    def node(self, difference: Difference) -> list[Telling]:
        """A node is new, other, or gone."""
        node = self._nodes.changed(difference)
        if node is not None:
            self._runs.node_came(node.name)
        return self._teller.drain()

    def own_pod(self, difference: Difference) -> list[Telling]:
        """A pod of relight's own is new, other, or gone."""
        self._nodes.own_pod(difference)
        return self._teller.drain()

    def agent(self, difference: Difference) -> list[Telling]:
        """A node agent's pod is new, other, or gone."""
        uid = difference.object["metadata"]["uid"]
        agent = read_agent(difference.object)
        (self._present.drop_agent if difference.new is None else self._present.put_agent)(uid, agent)
        return self._teller.drain()

    def job(self, difference: Difference) -> list[Telling]:
        """A Job is new, other, or gone."""
        self._runs.job_changed(difference)
        return self._teller.drain()

    def pod(self, difference: Difference) -> list[Telling]:
        """A pod of a Job is new, other, or gone."""
        self._runs.pod_changed(difference)
        return self._teller.drain()

    def listed(self) -> list[Telling]:
        """All kinds were listed for the first time: what the book knows and nobody listed has ended."""
        self._nodes.missing()  # first, while its pods still count as living there
        self._runs.missing()
        return self._teller.drain()

    def repeat(self, count: int) -> list[Telling]:
        """Tell the next `count` states again, round and round, so that no mailbox waits for one longer than a round."""
        for _ in range(count):
            if not self._sweep:
                self._sweep.extend(self._all())
            if not self._sweep:
                break
            kind, identity = self._sweep.popleft()
            match kind:
                case "node":
                    self._nodes.repeat(identity)
                case "run":
                    self._runs.repeat_run(identity)
                case _:
                    self._runs.repeat_pod(identity)
        return self._teller.drain()

    def repeat_all(self) -> list[Telling]:
        """Tell all states again: a resync."""
        self._sweep.clear()
        return self.repeat(len(self._all()))

    def _all(self) -> list[tuple[str, str]]:
        book = self._teller.book
        return [
            *(("run", run) for run in self._present.objects),
            *(("node", uid) for uid in book.nodes),
            *(("pod", uid) for uid in book.pods),
        ]
