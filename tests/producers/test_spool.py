"""The spool keeps what it took, in order, bounded, and says what it could not keep."""

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.errors import SpoolFull, SpoolInUse
from producers.observation import SignalClass
from producers.segments import found_segments
from producers.settings import SpoolSettings
from producers.spool import Gap, Spool
from schemas.envelope import Event, decode, make_event
from schemas.signals import ChipFault, ChipRef, FaultState, Heartbeat, NodeRef, SignalGap

NODE = NodeRef(uid="node-uid", name="node-1")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def fault(number: int) -> Event:
    data = ChipFault(
        node=NODE, chip=ChipRef(id="index:0"), namespace="xid", code=str(number), state=FaultState.ONCE
    )
    return event(data, f"fault-{number}")


def beat(number: int) -> Event:
    return event(Heartbeat(node=NODE, boot_id=str(number), started_at=NOW), f"beat-{number}")


def event(data: ChipFault | Heartbeat | SignalGap, name: str) -> Event:
    return make_event(
        data, id=name, source="/clusters/c/agent/n", subject="node/node-uid", time=NOW, cluster="c"
    )


def describe(gap: Gap) -> Event:
    return event(
        SignalGap(node=NODE, lost_class=gap.lost_class, lost=gap.lost, reason=gap.reason), f"gap-{gap.place}"
    )


Write = Callable[[int, bytes], int]


def open_spool(
    folder: Path,
    *,
    write: Write = os.write,
    max_bytes: int = 10_000_000,
    segment_bytes: int = 1_000_000,
    boot_id: str = "boot-1",
) -> Spool:
    chosen = SpoolSettings(folder=folder, max_bytes=max_bytes, segment_bytes=segment_bytes)
    return Spool(
        chosen,
        lambda spool: f"agent:node-uid:{spool}",
        describe,
        NOW.timestamp,
        lambda _: b"c/node/node-uid",
        boot_id=boot_id,
        write=write,
    )


def small(folder: Path, *, write: Write = os.write) -> Spool:
    return open_spool(folder, write=write, max_bytes=64 * 1024, segment_bytes=4096)


def fill(spool: Spool) -> int:
    """Append faults until there is no room; how many were taken."""
    number = 0
    try:
        while True:
            spool.append(SignalClass.FAULT, [fault(number)], source="eyes", state={"at": number})
            number += 1
    except SpoolFull as error:
        assert "no metrics left" in str(error)  # noqa: PT017 - the fault is what the loop waits for
    return number


def kill(spool: Spool) -> None:
    """Leave everything as SIGKILL would: files as they are, nothing saved, the lock gone with the process."""
    for lane in spool._lanes.values():
        for segment in lane:
            segment.close()
    spool._mark.close()
    spool._lock.close()


def everything(spool: Spool) -> list[Event]:
    found: list[Event] = []
    while taken := spool.take(100):
        found += [decode(entry.value) for entry in taken]
    return found


def ids(events: list[Event]) -> list[str]:
    return [one.id for one in events if not isinstance(one.data, SignalGap)]


def gaps(events: list[Event]) -> list[SignalGap]:
    return [one.data for one in events if isinstance(one.data, SignalGap)]


def test_what_is_appended_comes_out_in_order_over_classes(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(SignalClass.METRIC, [beat(0)])
    spool.append(SignalClass.FAULT, [fault(1), fault(2)])
    spool.append(SignalClass.METRIC, [beat(3)])
    spool.append(SignalClass.EXIT, [fault(4)])

    taken = spool.take(100)

    assert [entry.sequence for entry in taken] == [0, 1, 2, 3, 4]
    assert ids([decode(entry.value) for entry in taken]) == [
        "beat-0",
        "fault-1",
        "fault-2",
        "beat-3",
        "fault-4",
    ]
    spool.close()


def test_the_origin_is_fixed_when_appended_and_the_same_after_a_crash(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(SignalClass.FAULT, [fault(1), fault(2)])
    before = [entry.value for entry in spool.take(10)]
    kill(spool)

    again = open_spool(tmp_path)

    assert [entry.value for entry in again.take(10)] == before
    assert decode(before[1]).origin == f"agent:node-uid:{again.id}/0/1/0"
    kill(again)


def test_only_what_is_not_confirmed_comes_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(SignalClass.FAULT, [fault(number) for number in range(5)])
    spool.take(10)
    spool.acknowledge(3)  # in the middle of a batch
    kill(spool)

    again = open_spool(tmp_path)

    assert ids(everything(again)) == ["fault-3", "fault-4"]
    kill(again)


def test_sequence_numbers_go_on_when_all_was_confirmed_and_removed(tmp_path: Path) -> None:
    spool = small(tmp_path)
    spool.append(SignalClass.FAULT, [fault(number) for number in range(30)])
    spool.take(100)
    spool.acknowledge(30)
    assert spool._remove_confirmed(active_too=True)
    spool_id = spool.id
    kill(spool)

    again = small(tmp_path)
    again.append(SignalClass.FAULT, [fault(99)])

    assert again.id == spool_id
    assert [entry.sequence for entry in again.take(10)] == [30]
    kill(again)


def test_confirmed_segments_are_removed_and_states_outlive_them(tmp_path: Path) -> None:
    spool = small(tmp_path)
    for number in range(40):
        spool.append(SignalClass.FAULT, [fault(number)], source="eyes", state={"at": number})
    spool.acknowledge(len(spool.take(100)))
    left = len(found_segments(tmp_path))
    kill(spool)

    again = small(tmp_path)

    assert left == 1
    assert again.state_of("eyes") == {"at": 39}
    assert again.state_of("nobody") is None
    kill(again)


def test_a_state_without_events_is_kept(tmp_path: Path) -> None:
    spool = small(tmp_path)
    spool.append(SignalClass.FAULT, [fault(1)], source="eyes", state={"at": 1})
    spool.append(SignalClass.FAULT, [], source="eyes", state={"at": 2})
    kill(spool)

    again = small(tmp_path)

    assert again.state_of("eyes") == {"at": 2}
    assert again.next_sequence == 1
    kill(again)


def test_metrics_go_first_and_a_gap_says_how_many(tmp_path: Path) -> None:
    spool = small(tmp_path)
    for number in range(100):
        spool.append(SignalClass.METRIC, [beat(number)])
    kept = fill(spool)

    found = everything(spool)

    assert [one for one in ids(found) if one.startswith("fault")] == [f"fault-{n}" for n in range(kept)]
    assert not [one for one in ids(found) if one.startswith("beat")]
    assert sum(gap.lost or 0 for gap in gaps(found)) == spool.dropped[SignalClass.METRIC] == 100
    assert {gap.lost_class for gap in gaps(found)} == {"metric"}
    assert spool.dropped[SignalClass.FAULT] == spool.dropped[SignalClass.EXIT] == 0
    assert spool.size <= 64 * 1024 + 64 * 1024
    kill(spool)


def test_a_fault_refused_for_want_of_room_moves_no_cursor(tmp_path: Path) -> None:
    spool = small(tmp_path)
    number = fill(spool)

    assert spool.state_of("eyes") == {"at": number - 1}

    spool.acknowledge(len(spool.take(1000)))
    assert spool.append(SignalClass.FAULT, [fault(number)], source="eyes", state={"at": number}) == 1
    assert spool.state_of("eyes") == {"at": number}
    kill(spool)


def test_a_metric_that_finds_only_faults_is_refused_and_told_when_there_is_room(tmp_path: Path) -> None:
    spool = small(tmp_path)
    number = fill(spool)
    assert spool.append(SignalClass.METRIC, [beat(i) for i in range(10)]) == 0
    kill(spool)

    again = small(tmp_path)
    found = everything(again)

    assert len([one for one in ids(found) if one.startswith("fault")]) == number
    assert [(gap.lost_class, gap.lost) for gap in gaps(found)] == [("metric", 10)]
    kill(again)


def test_a_full_disk_takes_nothing_by_half(tmp_path: Path) -> None:
    room = [10_000]

    def write(file: int, raw: bytes) -> int:
        if len(raw) > room[0]:
            os.write(file, raw[: room[0]])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= len(raw)
        return os.write(file, raw)

    spool = small(tmp_path, write=write)
    kept = fill(spool)
    kill(spool)

    again = small(tmp_path)
    found = everything(again)

    assert 0 < kept < 30
    assert ids(found) == [f"fault-{n}" for n in range(kept)]
    assert gaps(found) == []
    kill(again)


def test_a_full_disk_drops_metrics_for_a_fault(tmp_path: Path) -> None:
    full = [False]

    def write(file: int, raw: bytes) -> int:
        if full[0]:
            full[0] = False  # the file that was dropped made room
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(file, raw)

    spool = small(tmp_path, write=write)
    for number in range(30):
        spool.append(SignalClass.METRIC, [beat(number)])
    full[0] = True

    assert spool.append(SignalClass.FAULT, [fault(1)]) == 1
    found = everything(spool)
    assert ids(found)[-1] == "fault-1"
    assert sum(gap.lost or 0 for gap in gaps(found)) == spool.dropped[SignalClass.METRIC] > 0
    kill(spool)


def test_a_damaged_middle_is_skipped_and_told_once(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(5):
        spool.append(SignalClass.FAULT, [fault(number)])
    old_id = spool.id
    kill(spool)
    path = found_segments(tmp_path)[0]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)

    again = open_spool(tmp_path)
    found = everything(again)
    kill(again)
    third = open_spool(tmp_path)

    assert ids(found) == ["fault-0", "fault-1", "fault-3", "fault-4"]
    assert [(gap.lost_class, gap.lost) for gap in gaps(found)] == [("unknown", None)]
    assert again.id != old_id
    assert third.id == again.id
    assert len(gaps(everything(third))) == 1
    kill(third)


def test_damage_met_while_reading_is_skipped_and_told(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(5):
        spool.append(SignalClass.FAULT, [fault(number)])
    path = found_segments(tmp_path)[0]
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\x00\x00\x00")

    found = everything(spool)

    assert ids(found) == ["fault-0", "fault-1", "fault-3", "fault-4"]
    assert len(gaps(found)) == 1
    kill(spool)


def test_a_disk_that_forgot_what_was_sent_gets_a_new_id(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(5):
        spool.append(SignalClass.FAULT, [fault(number)])
    spool.acknowledge(len(spool.take(10)))
    old_id = spool.id
    kill(spool)
    for path in found_segments(tmp_path):
        path.unlink()

    again = open_spool(tmp_path)

    assert again.id != old_id
    assert again.next_sequence == 5
    kill(again)


def test_after_a_loss_of_power_a_fault_never_looks_like_a_metric_the_disk_forgot(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "live")
    spool.append(SignalClass.FAULT, [fault(0)])
    shutil.copytree(tmp_path / "live", tmp_path / "synced")
    spool.append(SignalClass.METRIC, [beat(1)])
    delivered = {one.origin for one in everything(spool)}
    spool.acknowledge(2)
    kill(spool)

    again = open_spool(tmp_path / "synced", boot_id="boot-2")

    again.append(SignalClass.FAULT, [fault(2)])
    first, second = everything(again)
    assert first.origin in delivered, "what was spooled before keeps its origin"
    assert second.origin not in delivered
    kill(again)


def test_a_killed_process_goes_on_under_the_same_id(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(SignalClass.FAULT, [fault(0)])
    kill(spool)

    again = open_spool(tmp_path)

    assert again.id == spool.id
    kill(again)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)

    with pytest.raises(SpoolInUse, match="in use by another process"):
        open_spool(tmp_path)
    kill(spool)


def test_states_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(SignalClass.FAULT, [], source="eyes", state={"at": 1})
    kill(spool)
    (tmp_path / "states").write_bytes(b'{"eyes": [')

    again = open_spool(tmp_path)

    assert again.state_of("eyes") is None
    assert [gap.reason for gap in gaps(everything(again))] == ["states of the sources were damaged"]
    kill(again)


# ------------------------------------------------------------ laws


class World:
    """A spool, what it was given, and what came out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spool = small(folder)
        self.number = 0
        self.kept: list[str] = []
        self.taken: set[int] = set()
        self.seen: dict[str, tuple[int, str]] = {}
        self.dropped = 0

    def do(self, step: str, count: int) -> None:
        if step in ("fault", "exit", "metric"):
            self.append(step, count)
        elif step == "take":
            self.take(count)
        elif step == "confirm":
            below = sorted(self.taken)[:count]
            if below:
                self.spool.acknowledge(below[-1] + 1)
        elif step == "rewind":
            self.spool.rewind()
        else:
            self.kill()

    def append(self, step: str, count: int) -> None:
        events = [(beat if step == "metric" else fault)(self.number + place) for place in range(count)]
        self.number += count
        before = self.spool.state_of("eyes")
        try:
            self.spool.append(SignalClass(step), events, source="eyes", state={"at": self.number})
        except SpoolFull:
            assert self.spool.state_of("eyes") == before
            return
        assert self.spool.state_of("eyes") == {"at": self.number}
        if step != "metric":
            self.kept += [one.id for one in events]

    def take(self, count: int) -> list[int]:
        entries = self.spool.take(count)
        for entry in entries:
            found = decode(entry.value)
            here = (entry.sequence, found.id)
            assert self.seen.setdefault(str(found.origin), here) == here, "one origin, one content"
            self.taken.add(entry.sequence)
        return [entry.sequence for entry in entries]

    def kill(self) -> None:
        state, spool_id = self.spool.state_of("eyes"), self.spool.id
        self.dropped += self.spool.dropped[SignalClass.METRIC]
        kill(self.spool)
        self.spool = small(self.folder)
        assert self.spool.state_of("eyes") == state
        assert self.spool.id == spool_id


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["fault", "exit"]), st.integers(1, 30)),
        st.tuples(st.just("metric"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["take", "confirm"]), st.integers(1, 100)),
        st.tuples(st.sampled_from(["kill", "rewind"]), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(steps=steps)
@settings(max_examples=60)
def test_whatever_happens_no_fault_is_lost_doubled_or_out_of_order(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("spool"))
    for step, count in steps:
        world.do(step, count)
    world.kill()
    rest: list[int] = []
    while taken := world.take(50):
        rest += taken

    in_order = [name for _, name in sorted(world.seen.values())]
    told = sum(1 for name in in_order if name.startswith("gap"))
    assert rest == sorted(set(rest))
    assert [name for name in in_order if name.startswith("fault")] == world.kept
    assert (world.dropped > 0) == (told > 0)
    kill(world.spool)


@pytest.mark.slow
@given(
    batches=st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=12),
    cut=st.floats(0, 1),
    acked=st.integers(0, 40),
)
@settings(max_examples=100)
def test_a_file_cut_at_any_byte_costs_only_what_was_behind_the_cut(
    batches: list[tuple[bool, int]], cut: float, acked: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = open_spool(folder)
    number = 0
    for is_fault, count in batches:
        kind = SignalClass.FAULT if is_fault else SignalClass.METRIC
        spool.append(kind, [(fault if is_fault else beat)(number + place) for place in range(count)])
        number += count
    taken = spool.take(1000)
    spool.acknowledge(min(acked, number))
    used = {decode(entry.value).origin for entry in taken}
    kill(spool)
    path = found_segments(folder)[-1]
    whole = path.stat().st_size
    os.truncate(path, int(whole * cut))

    again = open_spool(folder)
    again.append(SignalClass.FAULT, [fault(1000)])
    entries = again.take(1000)
    found = [decode(entry.value) for entry in entries]

    assert [entry.sequence for entry in entries] == sorted({entry.sequence for entry in entries})
    assert ids(found)[-1] == "fault-1000"
    before = [decode(entry.value).id for entry in taken]
    old = [one for one in ids(found) if one != "fault-1000"]
    assert old == [one for one in before if one in old], "order and content of what is left are as they were"
    if gaps(found):  # cut inside a record: numbers are used again, never under the same id
        assert all(one.origin not in used for one in found if one.id == "fault-1000")
    kill(again)


def test_the_setting_says_what_fits() -> None:
    with pytest.raises(ValueError, match="at most a quarter of max_bytes"):
        SpoolSettings(max_bytes=64 * 1024, segment_bytes=64 * 1024)


def test_a_batch_larger_than_the_spool_is_known_beforehand(tmp_path: Path) -> None:
    spool = small(tmp_path)

    assert spool.fits([fault(1)])
    assert not spool.fits([fault(number) for number in range(1000)])
    kill(spool)
