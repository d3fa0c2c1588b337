"""From scrapes to edges: what stands is told once, and nothing is called well that was not seen well."""

from __future__ import annotations

from collections.abc import Mapping as Map
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.edges import CHIPS_LIMIT, Edges
from producers.errors import ScrapeFailed
from producers.exposition import Sample
from producers.identity import Identity
from producers.mapping import load_mapping
from producers.observation import Observation
from schemas.signals import ChipFault, FaultState, NodeRef

AT = datetime(2026, 3, 1, tzinfo=UTC)
IDENTITY = Identity("c", NodeRef(uid="n-1", name="node-1"))
SLOTS = ["npu_chip_info_error_code", *(f"npu_chip_info_error_code_{slot}" for slot in range(1, 10))]
CARD_DROP = 0x80E18402


def npu(*codes: float, vdie: str = "V-1", index: int = 0) -> list[Sample]:
    """A chip of npu-exporter with codes that stand."""
    labels = {"id": str(index), "vdie_id": vdie, "pcie_bus_info": "0000:C1:00.0", "model_name": "910B"}
    codes = codes or (0,)
    return [
        Sample("npu_chip_info_power", labels, 80),
        *(Sample(series, labels, value) for series, value in zip(SLOTS, codes, strict=False)),
    ]


def gpu(series: str, value: float, uuid: str = "GPU-1", **more: str) -> Sample:
    """A sample of dcgm-exporter."""
    return Sample(
        series,
        {"UUID": uuid, "gpu": "0", "pci_bus_id": "00000000:05:00.0", "modelName": "H100", **more},
        value,
    )


def npu_edges() -> Edges:
    return Edges(IDENTITY, load_mapping("npu-exporter"))


def dcgm_edges(*switched_on: str) -> Edges:
    return Edges(IDENTITY, load_mapping("dcgm-exporter"), switched_on)


def told(found: list[Observation]) -> list[tuple[str, str]]:
    """Codes and states, in order."""
    faults = [one.signal for one in found if isinstance(one.signal, ChipFault)]
    assert len(faults) == len(found)
    return [(fault.code, fault.state.value) for fault in faults]


def test_a_code_that_stands_is_told_when_it_begins_and_when_it_ends() -> None:
    edges = npu_edges()
    assert told(edges.observe(npu(CARD_DROP), AT)) == [("80E18402", "asserted")]
    assert [told(edges.observe(npu(CARD_DROP), AT)) for _ in range(3)] == [[], [], []]
    assert told(edges.observe(npu(0), AT)) == [("80E18402", "cleared")]
    assert edges.observe(npu(0), AT) == []


def test_codes_are_written_as_tables_write_them_eight_digits() -> None:
    assert told(npu_edges().observe(npu(0x0000000A, 0x81078603), AT)) == [
        ("0000000A", "asserted"),
        ("81078603", "asserted"),
    ]


def test_who_the_chip_is() -> None:
    (one,) = npu_edges().observe(npu(CARD_DROP, index=3), AT)
    assert isinstance(one.signal, ChipFault)
    assert one.signal.chip.model_dump(exclude_none=True) == {"id": "V-1", "index": 3, "bus": "0000:c1:00"}
    assert (one.signal.namespace, one.signal.product) == ("ascend", "910B")
    (nameless,) = npu_edges().observe(npu(CARD_DROP, vdie="", index=3), AT)
    assert isinstance(nameless.signal, ChipFault)
    assert nameless.signal.chip.id == "index:3"


def test_a_code_that_moves_to_another_slot_is_the_same_code() -> None:
    edges = npu_edges()
    edges.observe(npu(1, 2), AT)
    assert edges.observe(npu(2, 1), AT) == []
    assert told(edges.observe(npu(2), AT)) == [("00000001", "cleared")]


def test_a_chip_that_vanished_is_not_well() -> None:
    edges = npu_edges()
    edges.observe(npu(CARD_DROP) + npu(vdie="V-2", index=1), AT)
    assert edges.observe(npu(vdie="V-2", index=1), AT) == []
    assert edges.observe(npu(CARD_DROP) + npu(vdie="V-2", index=1), AT) == []
    assert told(edges.observe(npu() + npu(vdie="V-2", index=1), AT)) == [("80E18402", "cleared")]


def test_a_chip_still_shown_without_its_series_is_well() -> None:
    edges = npu_edges()
    edges.observe(npu(CARD_DROP), AT)
    assert told(edges.observe(npu()[:1], AT)) == [("80E18402", "cleared")]


def test_with_all_slots_taken_a_missing_code_may_only_be_pushed_out() -> None:
    edges = npu_edges()
    edges.observe(npu(CARD_DROP), AT)
    others = npu(*range(1, 11))
    assert {state for _, state in told(edges.observe(others, AT))} == {"asserted"}
    assert ("80E18402", "cleared") in told(edges.observe(npu(1), AT))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 1.5, 1e30])
def test_a_value_that_is_no_code_neither_asserts_nor_clears(value: float) -> None:
    edges = npu_edges()
    edges.observe(npu(CARD_DROP), AT)
    assert edges.observe(npu(value), AT) == []


def test_a_restart_tells_nothing_again_and_numbers_go_on() -> None:
    edges = npu_edges()
    (began,) = edges.observe(npu(CARD_DROP), AT)
    restarted = npu_edges()
    restarted.restore(edges.state())
    assert restarted.observe(npu(CARD_DROP), AT) == []
    (ended,) = restarted.observe(npu(), AT)
    (again,) = restarted.observe(npu(CARD_DROP), AT)
    assert len({began.id, ended.id, again.id}) == 3


def test_what_was_not_kept_has_the_same_id_when_seen_again() -> None:
    first, second = npu_edges(), npu_edges()
    assert [one.id for one in first.observe(npu(1, 2), AT)] == [
        one.id for one in second.observe(npu(1, 2), AT)
    ]


def test_a_scrape_of_too_many_chips_changes_nothing() -> None:
    edges = npu_edges()
    edges.observe(npu(CARD_DROP), AT)
    before = edges.state()
    with pytest.raises(ScrapeFailed, match="1,025 chips"):
        edges.observe([one for i in range(CHIPS_LIMIT + 1) for one in npu(7, vdie=f"V{i}")], AT)
    assert edges.state() == before


def test_the_last_xid_says_something_only_when_it_changes() -> None:
    edges = dcgm_edges()
    values = [48, 48, 79, 79, 0, 48]
    seen = [told(edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", value)], AT)) for value in values]
    assert seen == [[], [], [("79", "once")], [], [], [("48", "once")]]


def test_the_first_xid_after_none_is_new() -> None:
    edges = dcgm_edges()
    edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 0)], AT)
    restarted = dcgm_edges()
    restarted.restore(edges.state())
    assert told(restarted.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 48)], AT)) == [("48", "once")]


def test_where_the_kernel_log_is_read_xids_of_the_exporter_do_not_count_twice() -> None:
    edges = dcgm_edges("kernel-log")
    assert [edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", value)], AT) for value in (0, 48, 79)] == [
        [],
        [],
        [],
    ]


def test_health_that_goes_bad_and_comes_back() -> None:
    edges = npu_edges()

    def scrape(value: float) -> list[Sample]:
        return [Sample("npu_chip_info_health_status", {"id": "0", "vdie_id": "V"}, value)]

    seen = [told(edges.observe(scrape(value), AT)) for value in (1, 0, 0, float("nan"), 1)]
    assert seen == [[], [("unhealthy", "asserted")], [], [], [("unhealthy", "cleared")]]


def test_a_link_that_was_never_up_is_no_fault() -> None:
    edges = npu_edges()

    def scrape(value: float) -> list[Sample]:
        return [Sample("npu_chip_info_link_status", {"id": "0", "vdie_id": "V"}, value)]

    seen = [told(edges.observe(scrape(value), AT)) for value in (0, 0, 1, 0, 1)]
    assert seen == [[], [], [], [("link-down", "asserted")], [("link-down", "cleared")]]


def replays(edges: Edges, counter: float, seconds: float) -> list[tuple[str, str]]:
    return told(
        edges.observe([gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", counter)], AT + timedelta(seconds=seconds))
    )


def test_a_counter_above_its_rate_is_a_fault_until_a_whole_window_is_calm() -> None:
    edges = dcgm_edges()
    assert replays(edges, 1000, 0) == [], "where it stands says nothing"
    assert replays(edges, 1008, 15) == [], "as much as is allowed"
    assert replays(edges, 1009, 30) == [("pcie-replay-rate", "asserted")]
    assert replays(edges, 1009, 45) == []
    assert replays(edges, 1009, 60) == [], "still nine within the window"
    assert replays(edges, 1009, 75) == [("pcie-replay-rate", "cleared")]


def test_slow_growth_is_no_fault() -> None:
    edges = dcgm_edges()
    assert [replays(edges, minute * 8, minute * 60.0) for minute in range(10)] == [[]] * 10


def test_a_counter_that_starts_again_is_no_burst() -> None:
    edges = dcgm_edges()
    replays(edges, 5000, 0)
    assert replays(edges, 0, 15) == []
    assert replays(edges, 5, 30) == []
    assert replays(edges, 9, 45) == [("pcie-replay-rate", "asserted")], "what it grew by since counts"


def test_a_restart_does_not_call_a_rate_well_before_a_window_passed() -> None:
    edges = dcgm_edges()
    replays(edges, 0, 0)
    assert replays(edges, 100, 15) == [("pcie-replay-rate", "asserted")]
    restarted = dcgm_edges()
    restarted.restore(edges.state())
    assert replays(restarted, 100, 30) == []
    assert replays(restarted, 100, 60) == []
    assert replays(restarted, 100, 90) == [("pcie-replay-rate", "cleared")]


CHIP_CODES = st.lists(st.sets(st.integers(1, 4), max_size=4) | st.none(), max_size=8)


@pytest.mark.slow
@given(CHIP_CODES, CHIP_CODES)
def test_edges_of_a_chip_alternate_and_end_where_the_chip_was_last_seen(
    one: list[set[int] | None], other: list[set[int] | None]
) -> None:
    """Law: whatever comes, goes, or vanishes, per chip and code asserted and cleared alternate, and replaying them gives what was last shown."""
    edges = npu_edges()
    history: dict[tuple[str, str], list[FaultState]] = {}
    shown: dict[str, set[str]] = {}
    ids: set[str] = set()
    for step in range(max(len(one), len(other))):
        samples: list[Sample] = []
        for vdie, steps in (("A", one), ("B", other)):
            codes = steps[step] if step < len(steps) else None
            if codes is not None:
                samples += npu(*sorted(codes), vdie=vdie)
                shown[vdie] = {f"{code:08X}" for code in codes}
        restarted = npu_edges()
        restarted.restore(edges.state())
        edges = restarted
        for found in edges.observe(samples, AT):
            assert isinstance(found.signal, ChipFault)
            assert found.id not in ids
            ids.add(found.id)
            history.setdefault((found.signal.chip.id, found.signal.code), []).append(found.signal.state)
    _agrees(history, shown)


def _agrees(history: Map[tuple[str, str], list[FaultState]], shown: Map[str, set[str]]) -> None:
    for states in history.values():
        assert states[0] is FaultState.ASSERTED
        assert all(before is not after for before, after in pairwise(states))
    standing = {key for key, states in history.items() if states[-1] is FaultState.ASSERTED}
    assert standing == {(chip, code) for chip, codes in shown.items() for code in codes}
