"""Edges, not levels: what stands is told when it begins and when it ends, whatever happens between two scrapes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.edges import CHIPS_LIMIT, STANDING_KEPT, Edges
from producers.errors import ScrapeFailed
from producers.exposition import Sample
from producers.identity import Identity
from producers.mapping import Mapping, load_mapping
from producers.observation import Observation
from schemas.signals import ChipFault, FaultState, NodeRef

IDENTITY = Identity("test", NodeRef(uid="uid-1", name="node-1"))
T0 = datetime(2026, 3, 1, tzinfo=UTC)
UCE = float(int("80E01801", 16))
AIC = float(int("80C98009", 16))
UUID = "GPU-11111111-2222-3333-4444-555555555555"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def npu(*codes: float, chip: int = 0, vdie: str = "", health: float = 1, **labels: str) -> list[Sample]:
    """A chip of npu-exporter with these codes standing."""
    said = {"id": str(chip), "vdie_id": vdie, "pcie_bus_info": "0000:C1:00.0", "model_name": "910B", **labels}
    names = ["npu_chip_info_error_code", *(f"npu_chip_info_error_code_{n}" for n in range(1, 10))]
    shown = [Sample(name, said, code) for name, code in zip(names, codes, strict=False)]
    return [*shown, Sample("npu_chip_info_health_status", said, health)]


def gpu(series: str, value: float, **labels: str) -> Sample:
    return Sample(
        series,
        {"UUID": UUID, "gpu": "0", "modelName": "H100", "pci_bus_id": "00000000:9B:00.0", **labels},
        value,
    )


def npus() -> Edges:
    return Edges(IDENTITY, load_mapping("npu-exporter"))


def gpus(*switched_on: str) -> Edges:
    return Edges(IDENTITY, load_mapping("dcgm-exporter"), switched_on)


def told(seen: Iterable[Observation]) -> list[tuple[str, str, str]]:
    faults = [one.signal for one in seen]
    return [(f.chip.id, f.code, f.state.value) for f in faults if isinstance(f, ChipFault)]


def reborn(edges: Edges) -> Edges:
    """The same after a restart: what it remembers went through a file."""
    again = npus()
    again.restore(json.loads(json.dumps(edges.state())))
    return again


def test_a_standing_code_is_asserted_once_and_cleared_once() -> None:
    edges = npus()

    assert told(edges.observe(npu(UCE), at(0))) == [("index:0", "80E01801", "asserted")]
    assert not edges.observe(npu(UCE), at(15))
    assert told(edges.observe(npu(), at(30))) == [("index:0", "80E01801", "cleared")]
    assert not edges.observe(npu(), at(45))


def test_a_fault_says_who_the_chip_is() -> None:
    (seen,) = npus().observe(npu(UCE, chip=3, vdie="673CC8F4 20A03004"), at(0))

    assert isinstance(seen.signal, ChipFault)
    chip = seen.signal.chip
    assert (chip.id, chip.index, chip.bus) == ("673CC8F4 20A03004", 3, "0000:c1:00")
    assert (seen.signal.product, seen.signal.namespace, seen.signal.severity) == ("910B", "ascend", None)
    assert seen.time == at(0)


def test_a_code_that_moves_to_another_slot_still_stands() -> None:
    edges = npus()
    edges.observe(npu(UCE, AIC), at(0))

    assert not edges.observe(npu(AIC, UCE), at(15))
    assert told(edges.observe(npu(AIC), at(30))) == [("index:0", "80E01801", "cleared")]


def test_zero_is_no_code() -> None:
    assert not npus().observe(npu(0.0, 0.0), at(0))


def test_each_edge_is_an_event_of_its_own() -> None:
    edges = npus()
    ids = [
        seen.id
        for second in range(6)
        for seen in edges.observe(npu(*([UCE] if second % 2 == 0 else [])), at(second))
    ]

    assert len(set(ids)) == 6


def test_a_restart_neither_asserts_again_nor_loses_a_clear() -> None:
    edges = npus()
    edges.observe(npu(UCE), at(0))

    again = reborn(edges)

    assert not again.observe(npu(UCE), at(15))
    assert told(reborn(again).observe(npu(), at(30))) == [("index:0", "80E01801", "cleared")]


def test_an_edge_seen_again_after_a_crash_has_the_same_id() -> None:
    edges = npus()
    before = json.loads(json.dumps(edges.state()))
    first = edges.observe(npu(UCE), at(0))
    crashed = npus()
    crashed.restore(before)

    assert [seen.id for seen in crashed.observe(npu(UCE), at(7))] == [seen.id for seen in first]


def test_a_chip_that_vanished_is_not_well() -> None:
    edges = npus()
    edges.observe(npu(UCE, chip=0) + npu(UCE, chip=1), at(0))

    assert not edges.observe(npu(UCE, chip=0), at(15))
    assert told(edges.observe(npu(chip=0) + npu(chip=1), at(30))) == [
        ("index:0", "80E01801", "cleared"),
        ("index:1", "80E01801", "cleared"),
    ]


def test_a_chip_is_still_shown_by_a_series_nobody_mapped() -> None:
    edges = npus()
    edges.observe(npu(UCE), at(0))
    elsewhere = Sample("npu_chip_info_temperature", {"id": "0", "vdie_id": ""}, 40.0)

    assert told(edges.observe([elsewhere], at(15))) == [("index:0", "80E01801", "cleared")]


def test_with_all_slots_taken_a_missing_code_may_only_be_pushed_out() -> None:
    edges = npus()
    codes = [float(0x80E01800 + n) for n in range(10)]
    edges.observe(npu(*codes), at(0))

    pushed = edges.observe(npu(*codes[1:], UCE + 100), at(15))
    assert [state for _, _, state in told(pushed)] == ["asserted"]

    cleared = edges.observe(npu(*codes[2:]), at(30))
    assert {code for _, code, state in told(cleared) if state == "cleared"} == {
        "80E01800",
        "80E01801",
        f"{int(UCE + 100):08X}",
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1.5, 1e30])
def test_what_is_no_code_neither_begins_nor_ends_anything(value: float) -> None:
    edges = npus()
    edges.observe(npu(UCE), at(0))

    assert not edges.observe(npu(value), at(15))
    assert not edges.observe(npu(UCE), at(30))


def test_an_unhealthy_chip_is_told_at_first_sight() -> None:
    assert told(npus().observe(npu(health=0), at(0))) == [("index:0", "unhealthy", "asserted")]


def test_a_health_that_cannot_be_read_says_nothing() -> None:
    edges = npus()
    edges.observe(npu(health=0), at(0))

    assert not edges.observe(npu(health=math.nan), at(15))


def test_a_link_that_was_never_up_is_not_wired() -> None:
    labels = {"id": "0", "vdie_id": ""}
    down, up = (Sample("npu_chip_info_link_status", labels, value) for value in (0.0, 1.0))
    edges = npus()

    assert not edges.observe([down], at(0))
    assert not edges.observe([up], at(15))
    again = reborn(edges)
    assert told(again.observe([down], at(30))) == [("index:0", "link-down", "asserted")]
    assert told(again.observe([up], at(45))) == [("index:0", "link-down", "cleared")]


def test_a_sample_without_chip_says_nothing_of_chips() -> None:
    assert not npus().observe(
        [Sample("machine_npu_nums", {}, 8.0), Sample("npu_chip_info_error_code", {}, UCE)], at(0)
    )


def test_the_last_xid_is_told_when_it_changes() -> None:
    edges = gpus()

    assert not edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 31)], at(0))
    assert not edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 31)], at(15))
    (seen,) = edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 79)], at(30))
    assert not edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 79)], at(45))
    assert not edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 0)], at(60))
    again = edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 79)], at(75))

    assert isinstance(seen.signal, ChipFault)
    assert (seen.signal.namespace, seen.signal.code, seen.signal.state) == ("xid", "79", FaultState.ONCE)
    assert (seen.signal.chip.id, seen.signal.chip.bus) == (UUID, "0000:9b:00")
    assert told(again) == [(UUID, "79", "once")]


def test_the_last_xid_is_silent_where_the_kernel_log_is_read() -> None:
    edges = gpus("kernel-log")
    edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 0)], at(0))

    assert not edges.observe([gpu("DCGM_FI_DEV_XID_ERRORS", 79)], at(15))


def test_a_failed_row_remap_stands_until_it_is_gone() -> None:
    edges = gpus()

    assert told(edges.observe([gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1)], at(0))) == [
        (UUID, "row-remap-failure", "asserted")
    ]
    assert told(edges.observe([gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0)], at(15))) == [
        (UUID, "row-remap-failure", "cleared")
    ]


def replays(edges: Edges, *values: float, begin: float = 0, every: float = 15) -> list[tuple[str, str, str]]:
    return [
        edge
        for number, value in enumerate(values)
        for edge in told(
            edges.observe([gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", value)], at(begin + number * every))
        )
    ]


def test_a_counter_at_its_limit_is_no_fault() -> None:
    assert not replays(gpus(), 1000, 1002, 1004, 1006, 1008, 1010, 1012)


def test_a_counter_above_its_limit_begins_and_a_quiet_window_ends_it() -> None:
    edges = gpus()

    assert replays(edges, 0, 9) == [(UUID, "pcie-replay-rate", "asserted")]
    assert not replays(edges, 9, 9, 9, begin=30)
    assert replays(edges, 9, 9, begin=75) == [(UUID, "pcie-replay-rate", "cleared")]


def test_between_the_two_limits_nothing_changes() -> None:
    edges = gpus()
    replays(edges, 0, 9)

    assert not replays(edges, *range(15, 45, 6), begin=120, every=60)


def test_a_first_value_however_large_is_no_growth() -> None:
    assert not replays(gpus(), 1e9, 1e9, 1e9)


def test_a_counter_that_starts_again_is_no_growth() -> None:
    assert not replays(gpus(), 1e6, 0, 3, 1e-9)


def test_a_link_that_appears_with_a_large_count_is_no_growth() -> None:
    edges = gpus()
    series = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    edges.observe([gpu(series, 5, link="0")], at(0))

    assert not edges.observe([gpu(series, 5, link="0"), gpu(series, 900, link="1")], at(15))
    assert told(edges.observe([gpu(series, 5, link="0"), gpu(series, 901, link="1")], at(30))) == [
        (UUID, "nvlink-replay-rate", "asserted")
    ]


def test_after_a_restart_a_rate_is_well_only_when_a_whole_window_was_seen() -> None:
    edges = gpus()
    replays(edges, 0, 9)
    again = gpus()
    again.restore(json.loads(json.dumps(edges.state())))

    assert not replays(again, 9, 9, 9, begin=100)
    assert replays(again, 9, 9, begin=145) == [(UUID, "pcie-replay-rate", "cleared")]


def test_an_answer_of_too_many_chips_changes_nothing() -> None:
    edges = npus()
    edges.observe(npu(UCE), at(0))
    before = edges.state()
    flood = [sample for chip in range(CHIPS_LIMIT + 1) for sample in npu(chip=chip)]

    with pytest.raises(ScrapeFailed, match="chips"):
        edges.observe(flood, at(15))

    assert edges.state() == before


def test_what_is_remembered_is_bounded() -> None:
    edges = npus()
    for begin in range(0, STANDING_KEPT + 2000, 500):
        edges.observe([s for chip in range(begin, begin + 500) for s in npu(UCE, chip=chip)], at(begin))

    assert len(edges.state()["standing"]) == STANDING_KEPT


def test_a_severity_of_the_table_goes_with_the_signal() -> None:
    table: dict[str, Any] = {
        "exporter": "mine",
        "chip": {"id": ["uuid"], "index": "n"},
        "signals": [{"read": "status", "namespace": "site", "code": "x", "series": ["x"], "good": 0, "severity": "major"}],
    }  # fmt: skip
    (seen,) = Edges(IDENTITY, Mapping.model_validate(table)).observe([Sample("x", {"uuid": "c"}, 1.0)], at(0))

    assert isinstance(seen.signal, ChipFault)
    assert seen.signal.severity == "major"


CODES = st.sets(st.sampled_from([0x80E01801, 0x80C98009, 0x80CB8009, 0x80E18005]))


@given(
    scrapes=st.lists(
        st.tuples(st.dictionaries(st.integers(0, 2), CODES), st.booleans(), st.booleans()), max_size=20
    )
)
def test_edges_of_a_chip_alternate_and_end_where_it_was_last_seen(
    scrapes: list[tuple[dict[int, set[int]], bool, bool]],
) -> None:
    """Chips come and go, scrapes fail, the agent restarts: the edges told, added up, are what was last shown of each chip."""
    edges = npus()
    standing: set[tuple[str, str]] = set()
    shown: dict[str, set[str]] = {}
    ids: list[str] = []
    for number, (chips, fails, restarts) in enumerate(scrapes):
        if restarts:
            edges = reborn(edges)
        if fails:
            continue
        for chip, codes in chips.items():
            shown[f"index:{chip}"] = {f"{code:08X}" for code in codes}
        samples = [s for chip, codes in chips.items() for s in npu(*map(float, sorted(codes)), chip=chip)]
        for seen in edges.observe(samples, at(number * 15)):
            ids.append(seen.id)
            ((chip_id, code, state),) = told([seen])
            assert ((chip_id, code) in standing) == (state == "cleared")
            standing ^= {(chip_id, code)}
    assert standing == {(chip, code) for chip, codes in shown.items() for code in codes}
    assert len(set(ids)) == len(ids)
