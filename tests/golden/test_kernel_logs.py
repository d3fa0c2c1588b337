"""Recorded kernel logs of real machines: every Xid line is one signal, no other line is any."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from producers.chips import KnownChips
from producers.identity import Identity
from producers.kernel_faults import KernelFaults
from producers.kernel_log import KernelLogReader
from producers.kernel_log_file import LineReader
from producers.observation import Observation
from schemas.signals import ChipFault, FaultState, NodeRef

NODE = NodeRef(uid="n-1", name="node-1")
READ_AT = datetime(2026, 3, 1, tzinfo=UTC)


def read_file(path: Path) -> tuple[list[Observation], LineReader]:
    """Observations of a file, line by line."""
    reader = LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips()))
    lines = path.read_bytes().split(b"\n")
    seen = [reader.read(line, f"{path.name}/{number}", READ_AT) for number, line in enumerate(lines)]
    return [one for one in seen if one is not None], reader


def faults_of(observations: list[Observation]) -> list[ChipFault]:
    """The signals, all of which are chip faults."""
    faults = [one.signal for one in observations if isinstance(one.signal, ChipFault)]
    assert len(faults) == len(observations)
    return faults


def test_a_hung_gsp_is_five_faults_of_the_gpu_the_driver_named(relight_data: Path) -> None:
    seen, reader = read_file(relight_data / "gpud" / "dmesg-with-xid-119.log")
    faults = faults_of(seen)
    assert {(fault.namespace, fault.code, fault.state) for fault in faults} == {
        ("xid", "119", FaultState.ONCE)
    }
    assert {(fault.chip.id, fault.chip.bus) for fault in faults} == {
        ("GPU-509665ad-b600-ac93-3616-d754b23d636d", "0000:9b:00")
    }
    assert [one.time.strftime("%Y-%m-%d %H:%M:%S%z") for one in seen] == [
        "2025-02-23 16:24:18+0000",
        "2025-02-23 16:24:24+0000",
        "2025-02-23 16:24:30+0000",
        "2025-02-23 16:27:12+0000",
        "2025-02-23 16:30:13+0000",
    ]
    assert all(one.stamped for one in seen)
    assert len({one.id for one in seen}) == 5
    assert reader.counts["fault_lines_unreadable"] == 0


def test_a_bad_kernel_is_sixteen_times_13_and_then_43(relight_data: Path) -> None:
    """Seventeen Xid lines: sixteen exceptions of one kernel (13) within 2 ms, and the channel that was reset for it (43)."""
    seen, reader = read_file(relight_data / "gpud" / "memory.dmesg.decode.iso.log")
    faults = faults_of(seen)
    assert [fault.code for fault in faults] == ["13"] * 16 + ["43"]
    assert {fault.chip.id for fault in faults} == {"bus:0000:38:00"}
    first = datetime(2025, 1, 21, 4, 41, 44, 283302, UTC)
    assert seen[0].time == first
    assert [(one.time - first) // timedelta(microseconds=1) for one in seen] == [
        *(0, 88, 273, 369, 456, 635, 740, 948, 1043, 1131, 1314, 1403, 1490, 1669, 1758, 1845),
        3895,
    ]
    assert len({one.id for one in seen}) == 17
    assert reader.counts["fault_lines_unreadable"] == 0


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("gpud/kmsg.1.log", 47),
        ("gpud/kmsg.2.peermem.log", 8),
        ("gpud/nccl.dmesg.decode.iso.log", 2),
        ("gpud/os.dmesg.decode.iso.log", 2),
        ("gpud/fabricmanager.log", 77),
        ("gpud/dmesg-erst.txt", 39),
        ("loghub/Thunderbird_2k.log", 2000),
        ("loghub/BGL_2k.log", 2000),
        ("loghub/HPC_2k.log", 2000),
    ],
)
def test_logs_without_xid_give_no_signal(relight_data: Path, name: str, lines: int) -> None:
    seen, reader = read_file(relight_data / name)
    assert seen == []
    assert reader.counts["kernel_lines"] >= lines
    assert reader.counts["fault_lines_unreadable"] == 0


@pytest.mark.parametrize("name", ["kmsg.1.log", "kmsg.2.peermem.log"])
def test_recorded_kmsg_records_are_all_read_and_none_is_a_fault(relight_data: Path, name: str) -> None:
    reader = KernelLogReader(
        Identity("c", NODE),
        KernelFaults(NODE, KnownChips()),
        boot_id="boot",
        boot=READ_AT - timedelta(hours=1),
        history=timedelta(days=1),
    )
    records = [line for line in (relight_data / "gpud" / name).read_bytes().splitlines() if line]
    numbers = [int(record.split(b",")[1]) for record in records]
    counted: Counter[str] = Counter()
    for record, number, before in zip(records, numbers, [numbers[0] - 1, *numbers], strict=False):
        for one in reader.read(record, READ_AT, awaited=False):
            assert not isinstance(one.signal, ChipFault)
            assert number > before + 1, "only where the recording itself skips numbers is there a gap"
            counted["gaps"] += 1
    assert reader.counts["kernel_records_unreadable"] == 0
    assert reader.state()["sequence"] == max(numbers)
