"""What a kernel line says about a device: every layout that is a fault, and much that is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers.chips import Chip, KnownChips, plain_bus
from producers.kernel_faults import INTRODUCED_FOR, SAME_LOSS, KernelFaults
from producers.kernel_lines import KernelLine
from producers.xid import Fault, Name, Unreadable, read_text
from schemas.signals import FaultState, NodeRef, Severity

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = NodeRef(uid="n-1", name="node-1")
LOST_WORDS = "NVRM: GPU 0000:05:00.0: GPU has fallen off the bus."
LOST_NUMBER = "NVRM: Xid (PCI:0000:05:00): 79, pid=12, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "namespace", "code", "bus"),
    [
        ("NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.", "xid", "79", "0000:05:00"),
        ("NVRM: Xid (PCI:0000:B3:00.0): 48, pid=12345", "xid", "48", "0000:b3:00"),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "xid", "14", "0000:03:00"),
        ("NVRM: Xid (0003:00): 13, 0001 00000000", "xid", "13", "0000:03:00"),
        ("NVRM: Xid (PCI:0000:05:00 GPU-I:05): 94, pid=7, Contained", "xid", "94", "0000:05:00"),
        ("NVRM: Xid (PCI:00000000:05:00.0): 31", "xid", "31", "0000:05:00"),
        ("NVRM: Xid (PCI:0018:01:00): 149 NETIR_LINK_EVT", "xid", "149", "0018:01:00"),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 46 egress",
            "sxid",
            "12028",
            "0000:c1:00",
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "sxid",
            "20034",
            "0000:05:00",
        ),
        (LOST_WORDS, "xid", "79", "0000:05:00"),
        ("NVRM: GPU at 0000:05:00.0 has fallen off the bus.", "xid", "79", "0000:05:00"),
        ("NVRM: GPU at PCI:0000:05:00: GPU has fallen off the bus", "xid", "79", "0000:05:00"),
    ],
)
def test_each_layout_of_a_fault_is_read(text: str, namespace: str, code: str, bus: str) -> None:
    said = read_text(text)
    assert isinstance(said, Fault)
    assert (said.namespace, said.code, said.bus) == (namespace, code, bus)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVRM: GPU4 RPC history (CPU -> GSP):",
        "NVRM: GPU Board Serial Number: 1650124014249",
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).",
        "python[12]: NVRM: Xid (PCI:0000:05:00): 79, quoted",
        " NVRM: Xid (PCI:0000:05:00): 79, indented",
        "nvidia-nvswitch2: open (major=510)",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Data {0x50610002, 0x10100030, 0x00000000}",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context",
    ],
)
def test_other_lines_say_nothing(text: str) -> None:
    assert read_text(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: Xid (PCI:nonsense): 79, pid=1",
        "NVRM: Xid (PCI:0000:05:00): , pid=1",
        "NVRM: Xid (PCI:0000:05:00): 99999999, pid=1",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Perhaps, Link 46",
    ],
)
def test_a_fault_in_an_unknown_layout_is_counted_and_not_guessed(text: str) -> None:
    faults = KernelFaults(NODE, KnownChips())
    assert isinstance(read_text(text), Unreadable)
    assert faults.read(KernelLine(text), AT) is None
    assert faults.unreadable == 1


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6)", Severity.MAJOR),
        ("NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004)", Severity.NOTICE),
        ("NVRM: Xid (PCI:0000:04:00): 149 NETIR_LINK_EVT", None),
        ("NVRM: Xid (PCI:0000:04:00): 48, RLW_REMAP Fatal XC0", None),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", Severity.NOTICE),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", Severity.MAJOR),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", Severity.MAJOR),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", Severity.MAJOR),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", Severity.CRITICAL),
        ("NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (Something New)", None),
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22012, Non-fatal, Link 46", Severity.NOTICE),
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22012, Fatal, Link 46", Severity.MAJOR),
    ],
)  # fmt: skip
def test_severity_is_the_lines_own_word_where_the_tables_ask_for_it(
    text: str, severity: Severity | None
) -> None:
    said = read_text(text)
    assert isinstance(said, Fault)
    assert said.severity is severity


def test_a_loss_told_with_and_without_number_is_one_fault() -> None:
    faults = KernelFaults(NODE, KnownChips())
    assert faults.read(KernelLine(LOST_NUMBER), AT) is not None
    assert faults.read(KernelLine(LOST_WORDS), AT + timedelta(milliseconds=1)) is None
    other_chip = KernelLine(LOST_WORDS.replace("0000:05", "0000:06"))
    assert faults.read(other_chip, AT + timedelta(milliseconds=2)) is not None
    assert faults.read(KernelLine(LOST_WORDS), AT + SAME_LOSS + timedelta(seconds=1)) is not None


def test_every_numbered_line_counts_however_close() -> None:
    faults = KernelFaults(NODE, KnownChips())
    assert all(faults.read(KernelLine(LOST_NUMBER), AT) for _ in range(3))


def test_a_gpu_found_missing_when_the_driver_is_loaded_is_one_fault_of_the_named_device() -> None:
    faults = KernelFaults(NODE, KnownChips())
    first = [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "eth0: link up",
    ]
    assert [faults.read(KernelLine(text), AT) for text in first] == [None, None, None]
    restarted = KernelFaults(NODE, KnownChips())
    restarted.restore(faults.state())
    end = KernelLine("NVRM: fallen off the bus and is not responding to commands.")
    fault = restarted.read(end, AT)
    assert fault is not None
    assert (fault.code, fault.chip.bus) == ("79", "0000:b3:00")
    assert restarted.read(end, AT) is None, "the device of a line long gone is no device of this line"
    assert restarted.unreadable == 1


def test_a_device_named_long_before_is_not_the_one_that_is_gone() -> None:
    faults = KernelFaults(NODE, KnownChips())
    faults.read(KernelLine("NVRM: The NVIDIA GPU 0000:b3:00.0"), AT)
    for _ in range(INTRODUCED_FOR):
        faults.read(KernelLine("eth0: link up"), AT)
    assert faults.read(KernelLine("NVRM: fallen off the bus and is not responding"), AT) is None


def test_what_a_program_wrote_to_the_log_is_no_fault() -> None:
    line = KernelLine(LOST_NUMBER, from_kernel=False)
    assert KernelFaults(NODE, KnownChips()).read(line, AT) is None
    assert KernelFaults(NODE, KnownChips(), trust_programs=True).read(line, AT) is not None


def test_a_fault_is_of_the_chip_the_driver_named_on_that_bus() -> None:
    chips = KnownChips()
    faults = KernelFaults(NODE, chips)
    before = faults.read(KernelLine(LOST_NUMBER), AT)
    faults.read(KernelLine("NVRM: GPU at PCI:0000:05:00: GPU-509665ad-b600-ac93-3616-d754b23d636d"), AT)
    after = faults.read(KernelLine(LOST_NUMBER), AT)
    assert before is not None
    assert after is not None
    assert before.chip.id == "bus:0000:05:00"
    assert after.chip.id == "GPU-509665ad-b600-ac93-3616-d754b23d636d"
    assert after.chip.bus == "0000:05:00"
    assert after.state is FaultState.ONCE


def test_a_given_chip_wins_and_a_switch_is_never_a_gpu() -> None:
    chips = KnownChips({"0000:c1:00": Chip("GPU-given", "H100")})
    faults = KernelFaults(NODE, chips)
    gpu = faults.read(KernelLine("NVRM: Xid (PCI:0000:c1:00): 48, pid=1"), AT)
    switch = faults.read(KernelLine("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22012, Fatal, Link 1"), AT)
    assert gpu is not None
    assert switch is not None
    assert (gpu.chip.id, gpu.product) == ("GPU-given", "H100")
    assert (switch.chip.id, switch.product) == ("bus:0000:c1:00", None)


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        ("PCI:0000:05:00.0", "0000:05:00"),
        ("00000000:05:00.0", "0000:05:00"),
        ("05:00", "0000:05:00"),
        ("0010:AF:1f", "0010:af:1f"),
        ("0000:0500:00", None),
        ("GPU4", None),
        ("", None),
        ("PCI:", None),
    ],
)
def test_one_bus_has_one_spelling(text: str, bus: str | None) -> None:
    assert plain_bus(text) == bus


def test_a_lost_chips_question_marks_are_no_name() -> None:
    assert not isinstance(read_text("NVRM: GPU at PCI:0000:05:00: GPU-????????-????"), Name)


PIECES = st.sampled_from(
    [
        *("NVRM: ", "Xid (", "PCI:", "0000:05:00", "): ", "79", ", ", "Fatal", "nvidia-nvswitch0: SXid ("),
        *("GPU at ", "The NVIDIA GPU ", "has fallen off the bus", "fallen off the bus", "\x00", "\u2028"),
    ]
)


@given(st.one_of(st.text(max_size=300), st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)))
@example("NVRM: Xid (" + ":" * 10_000)
def test_any_text_is_read_or_said_to_be_unreadable_and_never_raises(text: str) -> None:
    faults = KernelFaults(NODE, KnownChips())
    faults.read(KernelLine(text), AT)
    restarted = KernelFaults(NODE, KnownChips())
    restarted.restore(faults.state())
    assert restarted.state() == faults.state()
