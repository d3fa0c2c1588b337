"""Faults let in from another process leave what real ones leave: a kernel line, a value on a page, a file, a signal; what is wrong is named."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from producers.errors import ScrapeFailed
from producers.exposition import read_exposition
from producers.http_get import http_get
from producers.mapping import load_mapping
from relight.cli import main
from relight.commands.sandbox import MARK
from runtime.errors import ApiAway, ApiError
from sandbox.demo.faults import Faults
from sandbox.demo.parts import Parts
from sandbox.demo.world import ENDED_FILE, WORLD_FILE, World
from sandbox.errors import SandboxError
from sandbox.stage.exporter import SERIES, XID, Exporter, page
from sandbox.stage.processes import trainer_of
from sandbox.stage.simulated_chips import SimulatedChips
from sandbox.training.faults import Asked

UUID = "GPU-00000001-0000-4000-8000-000000000000"
HOLDER = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
"""What `relight sandbox up` does to the mark of its folder, in a process of its own as that is."""


@pytest.fixture
def world(ended_world: Path) -> Iterator[Path]:
    """One that runs: its folder is held by another process."""
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", HOLDER, str(ended_world / MARK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield ended_world
        holder.kill()


@pytest.fixture
def ended_world(tmp_path: Path) -> Path:
    """What is left of a world of two nodes, as its file has it: one with a kernel log, one with an exporter."""
    nodes = {}
    for name, log in (("node-0", ""), ("node-1", str(tmp_path / "kern.log"))):
        SimulatedChips(tmp_path / name, [UUID]).make()
        nodes[name] = {
            "kernel_log": log, "chips": [{"bus": "0000:05:00", "uuid": UUID}], "simulated": str(tmp_path / name),
            "silent": str(tmp_path / f"{name}-silent"),
        }  # fmt: skip
    told = {
        "nodes": nodes,
        "program": str(tmp_path / "train.pyz"),
        "ranks": 3,
        "faults": str(tmp_path / "faults"),
        "ended": str(tmp_path / ENDED_FILE),
    }
    (tmp_path / WORLD_FILE).write_text(json.dumps(told), encoding="utf-8")
    (tmp_path / MARK).touch()
    return tmp_path


def relight(world: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["sandbox", "fault", *arguments], env={"RELIGHT_SANDBOX": str(world)})
    return result.exit_code, result.output


def test_a_chip_fault_is_a_kernel_line_and_a_code_that_stands_on_the_chip(world: Path) -> None:
    code, said = relight(world, "chip", "node-1", "--code", "79")

    assert code == 0, said
    assert f"Xid 79 on chip {UUID}" in said
    assert "NVRM: Xid (PCI:0000:05:00): 79," in (world / "kern.log").read_text(encoding="utf-8")
    assert json.loads((world / "node-1" / f"{UUID}.json").read_text())["codes"] == ["79"]


def test_a_scrape_value_is_on_the_page_the_node_agent_reads(world: Path) -> None:
    code, said = relight(world, "scrape", "node-0", "--value", "62")

    chips = SimulatedChips(world / "node-0", [UUID])
    samples = {
        sample.series: sample.value
        for sample in read_exposition(page("node-0", chips, ["0000:05:00"]).encode())
    }
    assert code == 0, said
    assert samples == {XID: 62, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0}


def test_the_page_has_only_series_that_the_agent_s_mapping_reads() -> None:
    read = {series for row in load_mapping("dcgm-exporter").signals for series in row.series}

    assert set(SERIES) <= read


def test_the_exporter_serves_a_page_a_node_and_404_for_others(world: Path) -> None:
    exporter = Exporter()
    exporter.start()
    try:
        address = exporter.add("node-0", SimulatedChips(world / "node-0", [UUID]), ["0000:05:00"])
        assert (
            UUID in asyncio.run(http_get(address, timeout=timedelta(seconds=5), max_bytes=100_000)).decode()
        )
        with pytest.raises(ScrapeFailed, match="404"):
            asyncio.run(
                http_get(address.replace("node-0", "node-7"), timeout=timedelta(seconds=5), max_bytes=100_000)
            )
    finally:
        exporter.stop()


@pytest.fixture
def trainer(world: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the training process of rank 1, beside one that only names the program."""
    program = world / "train.pyz"
    program.write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n", encoding="utf-8")
    environment = {**os.environ, "JOB_COMPLETION_INDEX": "1"}
    names_it = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", str(program)], env=environment
    )
    process = subprocess.Popen([sys.executable, str(program)], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    for each in (process, names_it):
        each.kill()
        each.communicate()


def test_a_signal_reaches_the_training_process_of_the_rank(
    world: Path, trainer: subprocess.Popen[bytes]
) -> None:
    assert trainer_of(world / "train.pyz", 1) == trainer.pid

    code, said = relight(world, "exit", "1", "--signal", "kill")

    assert code == 0, said
    assert trainer.wait(10) == -signal.SIGKILL


@pytest.mark.usefixtures("trainer")
def test_a_rank_is_asked_to_end_with_a_code_once(world: Path) -> None:
    code, said = relight(world, "exit", "1", "--code", "37")
    asked = Asked(world / "faults", 1)

    assert code == 0, said
    assert [asked.exit_code(5), asked.exit_code(6)] == [37, None]
    assert Asked(world / "faults", 2).exit_code(5) is None


@pytest.mark.parametrize("how", [("--signal", "SIGUSR1"), ("--code", "37")])
def test_a_rank_that_does_not_run_is_named_and_nothing_is_left_for_its_next_start(
    world: Path, how: tuple[str, str]
) -> None:
    code, said = relight(world, "exit", "0", *how)

    assert code == 1
    assert "rank 0 has no training process now" in said
    assert Asked(world / "faults", 0).exit_code(5) is None


EACH = (
    ("chip", "node-1"),
    ("scrape", "node-0", "--value", "62"),
    ("exit", "1"),
    ("exit", "1", "--signal", "KILL"),
    ("node", "node-1"),
)


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_a_fault_without_a_world_that_runs_is_refused_and_does_nothing(
    ended_world: Path, arguments: tuple[str, ...]
) -> None:
    code, said = relight(ended_world, *arguments)

    assert code == 1
    assert f"no world runs in {ended_world}" in said
    assert not (ended_world / "kern.log").exists()
    assert not (ended_world / "node-1-silent").exists()


@pytest.mark.parametrize("arguments", EACH, ids=" ".join)
def test_a_fault_of_a_job_that_has_ended_is_refused_and_does_nothing(
    world: Path, arguments: tuple[str, ...]
) -> None:
    (world / ENDED_FILE).write_text("Failed")

    code, said = relight(world, *arguments)

    assert code == 1
    assert "the job has ended (Failed)" in said
    assert not (world / "kern.log").exists()
    assert not (world / "node-1-silent").exists()


def test_a_silent_node_is_let_back_also_when_the_job_has_ended(world: Path) -> None:
    (world / "node-1-silent").touch()
    (world / ENDED_FILE).write_text("Failed")

    assert relight(world, "node", "node-1", "--back")[0] == 0
    assert not (world / "node-1-silent").exists()


def test_help_of_a_fault_needs_no_world() -> None:
    result = CliRunner().invoke(main, ["sandbox", "fault", "chip", "--help"])

    assert result.exit_code == 0, result.output
    assert "kernel log of NODE" in result.output


def test_a_node_falls_silent_by_a_mark_and_speaks_again_without_it(world: Path) -> None:
    assert relight(world, "node", "node-1")[0] == 0
    assert (world / "node-1-silent").exists()
    assert relight(world, "node", "node-1", "--back")[0] == 0
    assert not (world / "node-1-silent").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chip", "node-9"), "there is no node 'node-9'; right would be one of node-1\n"),
        (("scrape", "node-9", "--value", "62"), "right would be one of node-0, node-1"),
        (("chip", "node-0"), "reads no kernel log"),
        (("chip", "node-1", "--chip", "4"), "it has no chip 4"),
        (("scrape", "node-0", "--series", "X", "--value", "1"), "shows no X"),
        (("exit", "3"), "ranks 0 to 2"),
        (("exit", "1", "--signal", "HELLO"), "no signal 'HELLO'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(
    world: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, output = relight(world, *arguments)

    assert code != 0
    assert said in output
    assert "Traceback" not in output


def test_a_folder_without_a_world_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no world is in"):
        Faults.of(tmp_path)


class Stage:
    """As much of one as a world's look at its job needs; its API is away at the first look."""

    def __init__(self) -> None:
        self.nodes: dict[str, object] = {}
        self.answers: list[str | ApiError] = [ApiAway("away"), "", "Failed"]

    def job_ended(self, _: object) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def test_a_world_says_once_how_its_job_ended_and_leaves_it_where_faults_look(tmp_path: Path) -> None:
    said: list[str] = []
    world = World(tmp_path, Parts("", None, None, (), ()), said.append)  # type: ignore[arg-type]
    world.stage, world.job = Stage(), None  # type: ignore[assignment]

    world.tend()
    world.tend()
    assert said == []
    assert not (tmp_path / ENDED_FILE).exists()

    world.tend()
    world.tend()
    assert said == ["the job has ended (Failed); for another one end this world and start it again"]
    assert (tmp_path / ENDED_FILE).read_text() == "Failed"
