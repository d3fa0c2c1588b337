"""What a cut watch or a dead watcher missed is found by the next list, and nothing is told that did not happen."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from producers.cluster.book import Book
from runtime.kubernetes import Object
from schemas.facts import FACTS, IssueState, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.signals import NodeCondition
from streams.route import mailboxes
from tests.producers.cluster.objects import FakeCluster, make_job, make_node, make_pod, stamp, terminated
from tests.recovery.fact_contract import Facts, keeps_contract


def running() -> FakeCluster:
    cluster = FakeCluster()
    job = make_job("t", "j", size=2)
    cluster.put(make_node("n1", "node-1"), make_node("n2", "node-2"), job)
    cluster.put(make_pod(job, "p", node="n1"), make_pod(job, "q", node="n2", rank=1))
    return cluster


def facts_of(cluster: FakeCluster) -> Facts:
    return [
        (subject, told.payload)
        for told in cluster.told
        if isinstance(told.payload, FACTS)
        for subject in mailboxes(told.payload)
    ]


def test_a_successor_that_finds_everything_as_it_was_told_says_nothing() -> None:
    cluster = running()
    assert cluster.restart() == []


def test_a_successor_without_a_book_tells_every_state_and_no_end() -> None:
    cluster = running()
    told = [type(each.payload) for each in cluster.restart(remembers=False)]
    assert sorted(kind.__name__ for kind in told) == sorted(
        kind.__name__ for kind in (NodeSeen, NodeSeen, RunSeen, PodBound, PodBound, IssueState)
    )


def test_what_went_while_nobody_looked_has_ended() -> None:
    cluster = running()
    cluster.deaf = True
    cluster.remove("p", "node-1")
    cluster.deaf = False
    told = [each.payload for each in cluster.restart()]
    assert [fact.how for fact in told if isinstance(fact, PodEnded)] == ["lost"]
    assert not any(fact.processes_gone for fact in told if isinstance(fact, PodEnded))
    assert [fact.node.uid for fact in told if isinstance(fact, NodeGone)] == ["node-1"]
    assert [signal.condition for signal in told if isinstance(signal, NodeCondition)] == ["gone"]
    assert [(fact.state, fact.missing) for fact in told if isinstance(fact, IssueState)] == [
        ("incomplete", 1)
    ]


def test_a_job_deleted_while_nobody_looked_ends_its_run_after_its_pods() -> None:
    cluster = running()
    cluster.deaf = True
    cluster.remove("p", "q", "j")
    cluster.deaf = False
    told = [each.payload for each in cluster.restart()]
    assert [type(payload) for payload in told] == [PodEnded, PodEnded, RunEnded]
    assert cluster.of(RunEnded)[0].how == "deleted"
    assert cluster.restart() == []


def test_a_pod_made_anew_under_its_name_is_an_end_and_a_beginning() -> None:
    cluster = running()
    cluster.deaf = True
    cluster.remove("p")
    cluster.put(make_pod(cluster.jobs["j"], "p2", node="n2"))
    cluster.deaf = False
    cluster.hear()
    assert [fact.placement.pod_uid for fact in cluster.of(PodEnded)] == ["p"]
    assert [fact.placement.pod_uid for fact in cluster.of(PodBound)] == ["p", "q", "p2"]


def test_a_condition_that_ended_while_nobody_looked_is_cleared() -> None:
    cluster = running()
    at = stamp(cluster.now)
    cluster.change(
        "node-1", lambda node: node["status"]["conditions"][0].update(status="False", lastTransitionTime=at)
    )
    cluster.deaf = True
    cluster.change("node-1", lambda node: node["status"]["conditions"][0].update(status="True"))
    cluster.deaf = False
    told = [each.payload for each in cluster.restart()]
    assert [signal.state.value for signal in told if isinstance(signal, NodeCondition)] == ["cleared"]


def test_a_repetition_tells_every_state_and_changes_no_book() -> None:
    cluster = running()
    at = stamp(cluster.now)
    cluster.change(
        "node-1", lambda node: node["status"]["conditions"][0].update(status="False", lastTransitionTime=at)
    )
    before = [told.id for told in cluster.told if isinstance(told.payload, NodeCondition)]
    again = cluster.translator.repeat_all()
    kinds = sorted(type(told.payload).__name__ for told in again)
    assert kinds == sorted(
        kind.__name__ for kind in (RunSeen, IssueState, NodeSeen, NodeSeen, NodeCondition, PodBound, PodBound)
    )
    assert [told.id for told in again if isinstance(told.payload, NodeCondition)] == before  # the same event
    cluster.told += again
    keeps_contract(facts_of(cluster))
    assert cluster.restart() == []


def test_a_repetition_goes_round_piece_by_piece() -> None:
    cluster = running()
    told: list[str] = []
    for _ in range(2 * cluster.translator.known):
        told += [type(each.payload).__name__ for each in cluster.translator.repeat(1)]
    assert told.count("PodBound") == 4
    assert told.count("NodeSeen") == 4
    assert told.count("RunSeen") == 2


def test_the_dead_are_not_repeated() -> None:
    cluster = running()
    cluster.change("p", lambda pod: pod["status"].update(phase="Failed", containerStatuses=[terminated(1)]))
    cluster.change("j", lambda job: job.update(status={"conditions": [{"type": "Failed", "status": "True"}]}))
    cluster.remove("node-2")
    assert [type(each.payload) for each in cluster.translator.repeat_all()] == [NodeSeen]


def test_the_last_hour_is_all_a_successor_needs() -> None:
    """A book of what was told within `memory` alone, after a day without events but the repetition."""
    cluster = running()
    cluster.pass_time(86_400)
    since = len(cluster.told)
    cluster.told += cluster.translator.repeat_all()
    book = Book()
    for telling in cluster.told[since:]:
        book.fold(telling.payload)
    assert (set(book.runs), set(book.pods), set(book.nodes)) == ({"j"}, {"p", "q"}, {"node-1", "node-2"})
    del cluster.told[:since]
    assert cluster.restart() == []


# ------------------------------------------------------------ laws

NODES = ("node-1", "node-2", "node-3")
STEPS = (
    "job", "suspend", "resume", "finish", "delete job", "rebuild", "bind", "bind", "bind", "end pod", "delete pod",
    "evict", "node away", "node back", "node gone", "node new", "cut", "mend", "mend", "successor",
    "repeat",
)  # fmt: skip


class History:
    """A cluster that lives through steps; each acts on whatever is there."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.made = 0
        for number, uid in enumerate(NODES):
            self.cluster.put(make_node(f"n{number}", uid))

    def step(self, name: str, choice: int) -> None:  # noqa: C901, PLR0912, PLR0915 - one line a step
        cluster = self.cluster
        cluster.pass_time(3)
        at = stamp(cluster.now)
        pod = self._one(cluster.pods, choice)
        job = self._one(cluster.jobs, choice)
        node = self._one(cluster.nodes, choice)
        match name:
            case "job":
                cluster.put(make_job("t", self._uid("job"), size=2, at=cluster.now))
            case "suspend" if job:
                cluster.change(job, lambda item: item["spec"].update(suspend=True))
            case "resume" if job:
                epoch = str(choice % 5 + 1)
                cluster.change(job, lambda item: item["spec"].update(suspend=False))
                cluster.change(
                    job, lambda item: item["metadata"]["annotations"].update({"relight.dev/epoch": epoch})
                )
            case "finish" if job:
                kind = ("Complete", "Failed")[choice % 2]
                done = {"type": kind, "status": "True", "lastTransitionTime": at}
                cluster.change(
                    job, lambda item: item.update(status={"conditions": [done], "completionTime": at})
                )
            case "delete job" if job:
                cluster.remove(job)
            case "rebuild" if job and not cluster.jobs[job]["status"].get("conditions"):
                run = cluster.jobs[job]["metadata"]["annotations"].get("relight.dev/run", job)
                annotations = {"relight.dev/run": run, "fault-tolerance/job-retry-num": "1"}
                cluster.change(
                    job, lambda item: item["metadata"]["annotations"].update({"relight.dev/evicted-for": "i"})
                )
                cluster.remove(job)
                cluster.put(
                    make_job(
                        "t", self._uid("job"), size=2, at=cluster.now, metadata={"annotations": annotations}
                    )
                )
            case "bind" if job:
                target = cluster.nodes[node]["metadata"]["name"] if node else "n0"
                cluster.put(
                    make_pod(
                        cluster.jobs[job], self._uid("pod"), node=target, rank=choice % 2, at=cluster.now
                    )
                )
            case "end pod" if pod:
                phase = ("Succeeded", "Failed")[choice % 2]
                cluster.change(
                    pod,
                    lambda item: item["status"].update(
                        phase=phase, containerStatuses=[terminated(choice % 2)]
                    ),
                )
            case "delete pod" if pod:
                cluster.remove(pod)
            case "evict" if pod:
                cluster.change(pod, lambda item: _disrupt(item, at))
            case "node away" if node:
                cluster.change(
                    node,
                    lambda item: item["status"]["conditions"][0].update(
                        status="Unknown", lastTransitionTime=at
                    ),
                )
            case "node back" if node:
                cluster.change(
                    node,
                    lambda item: item["status"]["conditions"][0].update(status="True", lastTransitionTime=at),
                )
            case "node gone" if node:
                cluster.remove(node)
            case "node new":
                uid = self._uid("node")
                item = make_node(f"n{choice % 3}", uid)
                item["metadata"]["creationTimestamp"] = at
                taken = {each["metadata"]["name"] for each in cluster.nodes.values()}
                if item["metadata"]["name"] not in taken:
                    cluster.put(item)
            case "cut":
                cluster.deaf = True
            case "mend":
                cluster.deaf = False
                cluster.hear()
            case "successor":
                cluster.deaf = False
                cluster.restart()
            case "repeat":
                cluster.told += cluster.translator.repeat_all()

    def _uid(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-made-{self.made}"

    @staticmethod
    def _one(found: dict[str, Object], choice: int) -> str | None:
        return sorted(found)[choice % len(found)] if found else None


def _disrupt(pod: Object, at: str) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": at,
    }
    pod["status"]["conditions"].append(condition)


histories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30)), max_size=40)


@given(histories)
def test_the_contract_holds_through_any_history(steps: list[tuple[str, int]]) -> None:
    history = History()
    for name, choice in steps:
        history.step(name, choice)
    cluster = history.cluster
    cluster.deaf = False
    cluster.hear()
    keeps_contract(facts_of(cluster))


@given(histories)
def test_after_any_history_what_was_told_is_what_there_is(steps: list[tuple[str, int]]) -> None:
    history = History()
    for name, choice in steps:
        history.step(name, choice)
    cluster = history.cluster
    cluster.deaf = False
    cluster.restart()
    book = Book()
    for telling in cluster.told:
        book.fold(telling.payload)
    alive = {uid for uid, told in book.pods.items() if told.ended is None}
    running_pods = {
        uid
        for uid, pod in cluster.pods.items()
        if pod["status"]["phase"] == "Running" and pod["spec"]["nodeName"]
    }
    assert alive <= running_pods  # nobody dead is thought alive
    assert set(book.nodes) == set(cluster.nodes)
    for uid, told in book.nodes.items():
        is_ready = cluster.nodes[uid]["status"]["conditions"][0]["status"] == "True"
        assert told.seen.ready == is_ready
        assert is_ready == (not told.standing)
    open_runs = {told.seen.object_uid for told in book.runs.values() if told.ended is None}
    unfinished = {uid for uid, job in cluster.jobs.items() if not job["status"].get("conditions")}
    assert open_runs <= unfinished
    assert cluster.restart() == []


def test_time_alone_tells_nothing() -> None:
    cluster = running()
    before = len(cluster.told)
    cluster.pass_time(timedelta(days=2).total_seconds())
    cluster.hear()
    assert len(cluster.told) == before
