"""The spool: nothing lost, nothing renumbered, metrics before faults."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from producers.disk import Disk
from producers.errors import SpoolFull, SpoolInUse
from producers.observation import SignalClass
from producers.spool import OWN_STATE, Spool
from schemas.envelope import Origin, decode
from tests.producers.spools import (
    NODE,
    Mailbox,
    beat,
    fault,
    ids,
    open_spool,
    put_beat,
    put_faults,
)

SMALL = 32 * 1024


def fill_with_faults(spool: Spool) -> None:
    for number in range(10_000):
        put_faults(spool, number)


def test_signals_are_handed_out_in_the_order_they_were_put_in_whatever_their_class(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0)
    put_beat(spool, 1)
    put_faults(spool, 2, 3)
    spool.append(SignalClass.EXIT, "exits", None, [fault(4)])

    records = spool.hand_out(100)

    assert ids(records) == ["fault-0", "beat-1", "fault-2", "fault-3", "fault-4"]
    assert [record.sequence for record in records] == [0, 1, 2, 3, 4]


def test_the_origin_is_the_agent_the_spool_and_the_number(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, new_ids=["one"])
    put_faults(spool, 0)
    put_faults(spool, 1)

    origins = [decode(record.value).origin_parts for record in spool.hand_out(10)]

    assert origins == [Origin("agent:uid-1:one", 0, number, 0) for number in (0, 1)]


def test_what_was_not_confirmed_comes_again_after_a_restart_with_the_same_origin(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0, 1, 2)
    first = spool.hand_out(10)
    spool.abandon()

    again = open_spool(tmp_path).hand_out(10)

    assert again == first


def test_what_was_confirmed_and_saved_does_not_come_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0, 1, 2)
    spool.hand_out(10)
    spool.ack(1)
    spool.close()

    assert ids(open_spool(tmp_path).hand_out(10)) == ["fault-2"]


def test_numbers_go_on_after_a_restart_with_nothing_left(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    for number in range(100):
        put_faults(spool, number)
        spool.hand_out(10)
        spool.ack(number)
    stage = spool.stage
    spool.close()

    reopened = open_spool(tmp_path, max_bytes=SMALL)

    assert reopened.stage == stage
    assert put_faults(reopened, 100) == 100
    assert not reopened.untold()


def test_a_rewind_hands_the_same_out_again_first(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0, 1)
    put_faults(spool, 2)
    spool.hand_out(1)
    spool.ack(0)
    spool.rewind()

    assert ids(spool.hand_out(10)) == ["fault-1", "fault-2"]


def test_a_source_goes_on_behind_its_last_batch(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0, state={"cursor": 1})
    spool.note("log", {"cursor": 5})
    put_faults(spool, 1, state={"cursor": 7})
    spool.abandon()

    reopened = open_spool(tmp_path)

    assert reopened.state_of("log") == {"cursor": 7}
    assert reopened.state_of("other") is None


def test_a_noted_state_is_kept_by_the_next_save(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put_faults(spool, 0, state={"cursor": 1})
    spool.note("log", {"cursor": 5})
    assert spool.state_of("log") == {"cursor": 5}
    spool.save()
    spool.abandon()

    assert open_spool(tmp_path).state_of("log") == {"cursor": 5}


def test_the_state_of_a_source_outlives_the_files_of_its_signals(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    for number in range(100):
        put_faults(spool, number, state={"cursor": number})
        spool.hand_out(10)
        spool.ack(number)
    spool.abandon()

    assert open_spool(tmp_path, max_bytes=SMALL).state_of("log") == {"cursor": 99}


def test_confirmed_files_are_removed(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    for number in range(200):
        put_faults(spool, number)
        spool.hand_out(10)
        spool.ack(number)

    assert spool.size < SMALL / 8


def test_old_metrics_make_room_for_faults_and_are_counted(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    number = 0
    while not spool.untold():
        put_beat(spool, number)
        number += 1
    for fault_number in range(20):
        put_faults(spool, fault_number)

    came = ids(spool.hand_out(10_000))

    assert [name for name in came if name.startswith("fault")] == [f"fault-{n}" for n in range(20)]
    assert spool.untold() == {"metric": number - (len(came) - 20)}
    assert spool.size <= SMALL


def test_a_fault_is_never_dropped_it_waits(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    with pytest.raises(SpoolFull, match=r"no metrics that could be dropped"):
        fill_with_faults(spool)
    kept = spool.backlog

    assert kept
    assert not spool.untold()
    assert ids(spool.hand_out(10_000)) == [f"fault-{number}" for number in range(kept)]
    spool.ack(kept - 1)
    assert put_faults(spool, kept) == kept


def test_metrics_are_dropped_rather_than_faults_that_are_there_already(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    with pytest.raises(SpoolFull):
        fill_with_faults(spool)

    assert put_beat(spool, 0) is None
    assert spool.untold() == {"metric": 1}


def test_metrics_under_way_are_not_dropped(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    under_way = [f"beat-{number}" for number in range(10)]
    for number in range(10):
        put_beat(spool, number)
    assert ids(spool.hand_out(10)) == under_way
    for number in range(10, 400):
        put_beat(spool, number)
    assert spool.untold()
    spool.rewind()

    assert ids(spool.hand_out(10))[:10] == under_way


def test_a_batch_larger_than_the_spool_is_counted_and_its_source_goes_on(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=2048)

    assert put_faults(spool, *range(20), state={"cursor": 20}) is None
    assert spool.untold() == {"fault": 20}
    assert spool.state_of("log") == {"cursor": 20}


def test_a_loss_is_told_once_even_over_restarts(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=SMALL)
    for number in range(200):
        put_beat(spool, number)
    lost = spool.untold()
    assert lost
    spool.append(SignalClass.FAULT, OWN_STATE, {"told": spool.losses()}, [fault(0)])
    assert not spool.untold()
    spool.abandon()

    reopened = open_spool(tmp_path, max_bytes=SMALL)

    assert not reopened.untold()
    assert reopened.losses() == lost


def test_a_torn_end_is_cut_told_and_opens_a_new_numbering(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, new_ids=["one"])
    put_faults(spool, 0, state={"cursor": 1})
    put_faults(spool, 1, state={"cursor": 2})
    spool.abandon()
    (segment,) = tmp_path.glob("*.seg")
    segment.write_bytes(segment.read_bytes()[:-3])

    reopened = open_spool(tmp_path, new_ids=["two"])

    assert reopened.untold() == {"damaged:fault": 1}
    assert reopened.state_of("log") == {"cursor": 1}
    put_faults(reopened, 1, state={"cursor": 2})
    origins = [str(decode(record.value).origin) for record in reopened.hand_out(10)]
    assert origins == ["agent:uid-1:one/0/0/0", "agent:uid-1:two/0/1/0"]


def test_damage_in_the_middle_keeps_what_stands_before_it(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10):
        put_faults(spool, number)
    spool.abandon()
    (segment,) = tmp_path.glob("*.seg")
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    segment.write_bytes(raw)

    reopened = open_spool(tmp_path)

    came = ids(reopened.hand_out(100))
    assert came == [f"fault-{number}" for number in range(len(came))]
    assert 0 < len(came) < 10
    assert reopened.untold() == {"damaged:fault": 1}


def test_damage_found_while_reading_is_counted_and_passed_over(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(3):
        put_faults(spool, number)
    (segment,) = tmp_path.glob("*.seg")
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    segment.write_bytes(raw)

    assert ids(spool.hand_out(10)) == ["fault-0", "fault-2"]
    assert spool.untold() == {"damaged:fault": 1}


@pytest.mark.parametrize("content", [b"", b"garbage", b"00000000\n{}\n", b"\n\n\n\n"])
def test_a_damaged_book_is_told_and_repeats_keep_their_origin(tmp_path: Path, content: bytes) -> None:
    spool = open_spool(tmp_path, new_ids=["one"])
    put_faults(spool, 0, state={"cursor": 1})
    spool.hand_out(1)
    spool.ack(0)
    spool.close()
    (tmp_path / "book.json").write_bytes(content)

    reopened = open_spool(tmp_path, new_ids=["two"])

    assert reopened.untold() == {"damaged:book": 1}
    assert reopened.state_of("log") == {"cursor": 1}
    put_faults(reopened, 1)
    origins = [str(decode(record.value).origin) for record in reopened.hand_out(10)]
    assert origins == ["agent:uid-1:one/0/0/0", "agent:uid-1:two/0/1/0"]


def test_a_reboot_opens_a_new_numbering(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, new_ids=["one"])
    put_faults(spool, 0)
    spool.close()

    reopened = open_spool(tmp_path, boot="boot-2", new_ids=["two"])
    put_faults(reopened, 1)

    origins = [str(decode(record.value).origin) for record in reopened.hand_out(10)]
    assert origins == ["agent:uid-1:one/0/0/0", "agent:uid-1:two/0/1/0"]


def test_a_full_disk_takes_nothing_and_leaves_the_file_whole(tmp_path: Path) -> None:
    class FullDisk(Disk):
        full = False

        def write(self, file: int, data: bytes) -> None:
            if self.full:
                super().write(file, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(file, data)

    disk = FullDisk()
    spool = open_spool(tmp_path, disk=disk)
    put_faults(spool, 0)
    disk.full = True
    with pytest.raises(SpoolFull, match="No space left"):
        put_faults(spool, 1)
    disk.full = False

    assert put_faults(spool, 2) == 1
    spool.abandon()
    reopened = open_spool(tmp_path)
    assert ids(reopened.hand_out(10)) == ["fault-0", "fault-2"]
    assert not reopened.untold()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)

    with pytest.raises(SpoolInUse, match="one node agent a folder"):
        open_spool(tmp_path)

    spool.abandon()
    open_spool(tmp_path).abandon()


def test_repeats_reach_a_mailbox_once(tmp_path: Path) -> None:
    mailbox = Mailbox()
    spool = open_spool(tmp_path)
    put_faults(spool, 0, 1)
    for record in spool.hand_out(10):
        mailbox.take(record)
    spool.abandon()
    reopened = open_spool(tmp_path)
    reopened.append(SignalClass.METRIC, "beat", None, [beat(2)])
    for record in reopened.hand_out(10):
        mailbox.take(record)

    assert mailbox.accepted == ["fault-0", "fault-1", "beat-2"]
    assert NODE.uid in reopened.stage
