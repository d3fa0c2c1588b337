"""Recorded scrapes are read whole, and say nothing where all is well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from producers.edges import Edges
from producers.errors import ScrapeFailed
from producers.exposition import read_exposition
from producers.identity import Identity
from producers.mapping import load_mapping
from schemas.signals import ChipFault, FaultState, NodeRef

AT = datetime(2026, 3, 1, tzinfo=UTC)
NPU = "mindcluster/npu_exporter_prometheus_metrics.txt"


def sample_lines(raw: bytes) -> int:
    """Samples by counting lines that are neither comments nor empty."""
    return sum(1 for line in raw.splitlines() if line.strip() and not line.startswith(b"#"))


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        (NPU, 130),
        ("dlrover/xpu_timer_normal_0.txt", 177),
        ("dlrover/xpu_timer_hang_all.txt", 177),
        ("dlrover/xpu_timer_hang_some.txt", 177),
    ],
)
def test_recorded_scrapes_are_read_whole(relight_data: Path, name: str, samples: int) -> None:
    raw = (relight_data / name).read_bytes()
    assert len(read_exposition(raw)) == samples == sample_lines(raw)


def test_eight_healthy_npus_give_no_signal(relight_data: Path) -> None:
    """Their links were never up, and no code stands."""
    edges = Edges(Identity("c", NodeRef(uid="n", name="n")), load_mapping("npu-exporter"))
    samples = read_exposition((relight_data / NPU).read_bytes())
    assert {sample.labels["id"] for sample in samples if "id" in sample.labels} == {str(i) for i in range(8)}
    assert edges.observe(samples, AT) == []
    assert edges.observe(samples, AT + timedelta(seconds=15)) == []


def test_a_code_that_appears_in_the_recorded_scrape_is_that_chips_fault(relight_data: Path) -> None:
    edges = Edges(Identity("c", NodeRef(uid="n", name="n")), load_mapping("npu-exporter"))
    raw = (relight_data / NPU).read_text()
    labels = 'container_name="",id="3",model_name="910Awn-Ascend-V1",namespace="",pcie_bus_info="",pod_name="",vdie_id=""'
    well = f"npu_chip_info_error_code{{{labels}}} "
    assert raw.count(f"{well}0 ") == 1
    ill = raw.replace(f"{well}0 ", f"{well}{0x80E18402} ").encode()
    assert edges.observe(read_exposition(raw.encode()), AT) == []
    (began,) = edges.observe(read_exposition(ill), AT)
    (ended,) = edges.observe(read_exposition(raw.encode()), AT)
    for one, state in ((began, FaultState.ASSERTED), (ended, FaultState.CLEARED)):
        assert isinstance(one.signal, ChipFault)
        assert (one.signal.namespace, one.signal.code, one.signal.state) == ("ascend", "80E18402", state)
        assert (one.signal.chip.id, one.signal.chip.index) == ("index:3", 3)


@pytest.mark.parametrize("kept", [0.3, 0.7])
def test_a_scrape_cut_off_in_a_line_is_no_scrape(relight_data: Path, kept: float) -> None:
    raw = (relight_data / NPU).read_bytes()
    inside_a_label = raw.index(b'pod_name="', int(len(raw) * kept)) + 4
    with pytest.raises(ScrapeFailed):
        read_exposition(raw[:inside_a_label])
