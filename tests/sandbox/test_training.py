"""The training job: interrupted or not it ends with the same bits; it goes on only from what is whole, and writes only for the newest epoch."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox.training import build
from sandbox.training.checkpoints import MANIFEST, Checkpoints
from sandbox.training.errors import NoRendezvous, Outdated, PeerLost
from sandbox.training.fence import Fence
from sandbox.training.model import State, alone
from sandbox.training.pace import Pace
from sandbox.training.rendezvous import Member, Place, gather, join

SECONDS = 20.0
STEPS = 60


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("training") / "train.pyz")


class Job:
    """Ranks as processes, as pods would run them."""

    def __init__(self, program: Path, folder: Path, world: int = 4) -> None:
        self.program = program
        self.folder = folder
        self.world = world
        self.ranks: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *,
        epoch: int = 1,
        starts: int = 1,
        step_seconds: float = 0.02,
        more: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "faults").mkdir(exist_ok=True)
        for rank in range(self.world):
            command = [
                sys.executable, "-I", str(self.program), "--steps", str(STEPS), "--world", str(self.world),
                "--checkpoints", str(self.folder / "checkpoints"), "--rendezvous", str(self.folder),
                "--faults", str(self.folder / "faults"), "--starts", str(self.folder / "starts"),
                "--step-seconds", str(step_seconds), "--patience", "20", *more,
            ]  # fmt: skip
            told = {
                "PATH": os.environ["PATH"],
                "JOB_COMPLETION_INDEX": str(rank),
                "RELIGHT_EPOCH": str(epoch),
                "MA_SCHEDULE_CNT": str(epoch),
                "MA_PROC_START_CNT": str(starts),
                **(environment or {}),
            }
            self.ranks.append(subprocess.Popen(command, env=told, stdout=subprocess.DEVNULL))

    def codes(self, seconds: float = SECONDS) -> list[int]:
        """Exit codes once all have ended."""
        deadline = time.monotonic() + seconds
        codes = [rank.wait(max(0.1, deadline - time.monotonic())) for rank in self.ranks]
        self.ranks.clear()
        return codes

    def ask(self, fault: str, step: int) -> None:
        (self.folder / "faults").mkdir(parents=True, exist_ok=True)
        (self.folder / "faults" / fault).write_text(str(step))

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / "starts").read_text().splitlines() if (self.folder / "starts").exists() else []
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def result(self) -> str:
        """The digest all ranks ended with."""
        (digest,) = {line["digest"] for line in self.said("finished")}
        return str(digest)

    def manifests(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").glob(f"step-*/{MANIFEST}"))

    def wait_for_checkpoints(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(self.manifests()) < count:
            assert time.monotonic() < deadline, "no checkpoint in time"
            time.sleep(0.01)


@pytest.fixture
def job(program: Path, tmp_path: Path) -> Iterator[Job]:
    made = Job(program, tmp_path / "job")
    yield made
    for rank in made.ranks:
        rank.kill()
        rank.wait()


@pytest.fixture(scope="session")
def undisturbed(program: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run ends with that nobody interrupts."""
    job = Job(program, tmp_path_factory.mktemp("undisturbed") / "job")
    job.start(step_seconds=0.0)
    assert job.codes() == [0, 0, 0, 0]
    return job.result()


@pytest.mark.slow
def test_ranks_compute_what_one_process_computes_alone(job: Job) -> None:
    job.start(step_seconds=0.0)
    assert job.codes() == [0, 0, 0, 0]

    newest = Checkpoints(job.folder / "checkpoints", rank=2, world=4, epoch=1, keep=3)
    saved = newest.newest()
    assert saved is not None
    assert saved.step == STEPS
    assert newest.read_part(saved) == alone(STEPS, ranks=4).to_bytes()
    assert alone(STEPS, ranks=4).weights != alone(STEPS - 1, ranks=4).weights  # it does learn


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 3])
def test_a_killed_rank_ends_all_within_seconds_and_a_rerun_ends_with_the_same_bits(
    job: Job, undisturbed: str, victim: int
) -> None:
    job.start(step_seconds=0.05)
    job.wait_for_checkpoints(1)
    job.ranks[victim].kill()
    killed = time.monotonic()
    codes = job.codes()
    assert time.monotonic() - killed < 5
    assert codes[victim] == -signal.SIGKILL
    assert all(code == PeerLost.code for rank, code in enumerate(codes) if rank != victim)

    job.start(starts=2, step_seconds=0.0)
    assert job.codes() == [0, 0, 0, 0]

    again = [line for line in job.said("started") if line["start_count"] == "2"]
    assert len(again) == 4
    (resumed,) = {line["step"] for line in again}
    assert resumed >= 10
    assert resumed % 10 == 0
    assert {line["schedule_count"] for line in again} == {"1"}
    assert job.result() == undisturbed


@pytest.mark.slow
def test_a_torn_checkpoint_is_passed_over_and_the_next_older_one_taken(job: Job, undisturbed: str) -> None:
    job.ask("exit-1", 45)
    job.start(step_seconds=0.0)
    assert job.codes()[1] == 1
    newest = job.manifests()[-1].parent
    assert newest.name.startswith("step-000000040")
    (newest / "rank-00002.state").write_bytes(b"half of it")

    job.start(starts=2, step_seconds=0.0)

    assert job.codes() == [0, 0, 0, 0]
    assert {line["step"] for line in job.said("started") if line["start_count"] == "2"} == {30}
    assert job.result() == undisturbed


@pytest.mark.parametrize(
    "torn", ["no manifest", "half a manifest", "changed manifest", "missing part", "other size"]
)
def test_what_is_not_whole_is_no_checkpoint(tmp_path: Path, torn: str) -> None:
    def of(rank: int, world: int = 2) -> Checkpoints:
        return Checkpoints(tmp_path, rank=rank, world=world, epoch=1, keep=3)

    for step in (10, 20):
        digests = [of(rank).write_part(step, State.new().to_bytes()) for rank in range(2)]
        of(0).publish(step, digests, None)
    newest = of(0).newest()
    assert newest is not None
    assert newest.step == 20
    manifest = newest.folder / MANIFEST
    match torn:
        case "no manifest":
            manifest.unlink()
        case "half a manifest":
            manifest.write_bytes(manifest.read_bytes()[:-20])
        case "changed manifest":
            manifest.write_text(manifest.read_text().replace('"step": 20', '"step": 30'))
        case "missing part":
            (newest.folder / "rank-00001.state").unlink()
        case "other size":
            assert of(0, world=3).newest() is None
            return

    left = of(0).newest()

    assert left is not None
    assert left.step == 10


def test_the_newest_complete_checkpoints_are_kept_and_unfinished_ones_are_left_alone(tmp_path: Path) -> None:
    mine = Checkpoints(tmp_path, rank=0, world=1, epoch=1, keep=2)
    mine.write_part(5, b"unfinished")
    for step in (10, 20, 30):
        mine.publish(step, [mine.write_part(step, b"whole")], None)

    assert [path.parent.name[:14] for path in sorted(tmp_path.glob(f"*/{MANIFEST}"))] == [
        "step-000000020",
        "step-000000030",
    ]
    assert (tmp_path / "step-000000005-epoch-000001").exists()


def test_an_old_epoch_publishes_nothing_once_a_newer_one_has_begun(tmp_path: Path) -> None:
    old = Checkpoints(tmp_path, rank=0, world=1, epoch=1, keep=2)
    old.fence.begin()
    digest = old.write_part(10, b"late")
    Fence(tmp_path, 2).begin()

    with pytest.raises(Outdated, match="epoch 2 owns"):
        old.publish(10, [digest], None)

    assert old.newest() is None
    with pytest.raises(Outdated):
        Fence(tmp_path, 1).begin()
    Fence(tmp_path, 10).begin()  # more digits than before
    with pytest.raises(Outdated):
        Fence(tmp_path, 9).begin()


@pytest.mark.slow
def test_processes_of_an_old_epoch_end_without_training_once_a_newer_one_has_begun(job: Job) -> None:
    Fence(job.folder / "checkpoints", 2).begin()
    job.start(epoch=1)
    assert job.codes() == [Outdated.code] * 4
    assert job.manifests() == []


@pytest.mark.slow
def test_sigterm_ends_a_rank_at_once_with_143(job: Job) -> None:
    job.start(step_seconds=30.0)
    deadline = time.monotonic() + SECONDS
    while len(job.said("started")) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    told = time.monotonic()
    for rank in job.ranks:
        rank.terminate()
    assert job.codes() == [143] * 4
    assert time.monotonic() - told < 15, "a step takes half a minute"


@pytest.mark.slow
def test_a_rank_holds_the_devices_it_was_given_while_it_lives(job: Job, tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    job.world = 1
    job.ask("hang-0", 1)
    job.start(
        step_seconds=0.0, more=("--devices", str(tmp_path)), environment={"NVIDIA_VISIBLE_DEVICES": "1"}
    )
    deadline = time.monotonic() + SECONDS
    while not job.said("started"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    held = {file.path for file in psutil.Process(job.ranks[0].pid).open_files()}
    assert str(tmp_path / "nvidia1") in held
    assert str(tmp_path / "nvidia0") not in held


@pytest.mark.slow
def test_a_rank_that_is_asked_to_hang_stops_all_until_it_goes_on(job: Job, undisturbed: str) -> None:
    job.ask("hang-2", 15)
    job.start(step_seconds=0.0)
    job.wait_for_checkpoints(1)
    time.sleep(0.5)
    assert len(job.manifests()) == 1
    assert all(rank.poll() is None for rank in job.ranks)

    (job.folder / "faults" / "hang-2").unlink()

    assert job.codes() == [0, 0, 0, 0]
    assert job.result() == undisturbed


@pytest.mark.slow
def test_a_rank_that_says_nothing_is_given_up_in_the_time_set(job: Job) -> None:
    job.ask("hang-2", 5)
    job.start(step_seconds=0.0, more=("--silence", "1"))
    codes = [rank.wait(SECONDS) for index, rank in enumerate(job.ranks) if index != 2]
    assert codes == [PeerLost.code] * 3


@pytest.mark.slow
def test_the_address_of_a_rank_0_that_answers_nobody_any_more_holds_nobody_up(
    job: Job, undisturbed: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        job.folder.mkdir()
        (job.folder / "rendezvous").write_text(f"127.0.0.1 {stopped.getsockname()[1]}")
        job.start(step_seconds=0.0, epoch=2)
        assert job.codes() == [0, 0, 0, 0]
        assert job.result() == undisturbed


@pytest.mark.parametrize("differs", [{"epoch": 1}, {"job": "other"}, {"world": 3}, {"rank": 2}, {"rank": 0}])
def test_who_does_not_belong_to_this_start_is_turned_away(tmp_path: Path, differs: dict[str, Any]) -> None:
    place = Place("127.0.0.1", 0, tmp_path)
    stranger = replace(Member("job", 2, 2, 1), **differs)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(gather, place, Member("job", 2, 2, 0), patience=SECONDS, silence=SECONDS)
        while not (tmp_path / "rendezvous").exists():
            time.sleep(0.001)
        with pytest.raises(NoRendezvous, match="turned us away"):
            join(place, stranger, patience=0.5, silence=SECONDS)
        assert not first.done()
        line = join(place, Member("job", 2, 2, 1), patience=SECONDS, silence=SECONDS)
        (other,) = first.result(SECONDS)
    line.close()
    other.close()


def test_ranks_that_do_not_find_each_other_end_with_who_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoRendezvous, match=r"ranks \[1, 2\] did not come"):
        gather(Place("127.0.0.1", 0, tmp_path), Member("job", 1, 3, 0), patience=0.2, silence=SECONDS)
    with pytest.raises(NoRendezvous, match="was not found"):
        join(Place("127.0.0.1", 0, tmp_path), Member("job", 1, 3, 1), patience=0.2, silence=SECONDS)


@pytest.mark.slow
def test_progress_and_milestones_are_told_in_words_a_supervisor_reads(job: Job, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        supervisor.bind(str(tmp_path / "s"))
        job.world = 1
        job.start(step_seconds=0.0, environment={"RELIGHT_PROGRESS": str(tmp_path / "s")})
        told: list[str] = []
        while not told or not told[-1].startswith(f"checkpoint {STEPS} "):
            supervisor.settimeout(SECONDS)
            told.append(supervisor.recv(4096).decode())
        assert job.codes() == [0]
    assert told[:2] == ["milestone communication_ready", "milestone checkpoint_loaded"]
    assert "milestone first_step" in told
    word, step, more = [line for line in told if line.startswith("step ")][-1].split(maxsplit=2)
    assert (word, step) == ("step", str(STEPS))
    assert json.loads(more)["step_seconds"] > 0
    newest = job.manifests()[-1].parent
    assert json.loads(told[-1].split(maxsplit=2)[2]) == {"edge": "end", "tier": "remote", "path": str(newest)}


@pytest.mark.slow
def test_what_was_restored_is_told_with_its_step_and_its_place(job: Job, tmp_path: Path) -> None:
    job.world = 1
    job.start(step_seconds=0.0)
    assert job.codes() == [0]
    saved = job.manifests()[-1].parent
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "s"))
        supervisor.settimeout(SECONDS)
        job.start(epoch=2, environment={"RELIGHT_PROGRESS": str(tmp_path / "s")})
        told = [supervisor.recv(4096).decode() for _ in range(3)]
        assert job.codes() == [0]
    assert told[:2] == ["milestone communication_ready", "milestone checkpoint_loaded"]
    word, step, more = told[2].split(maxsplit=2)
    assert (word, step) == ("checkpoint", str(STEPS))
    assert json.loads(more) == {"edge": "restored", "tier": "remote", "path": str(saved)}


def test_stable_is_said_once_after_five_steps_as_fast_as_before_and_never_without_a_baseline() -> None:
    pace = Pace(1.0, 0.1)
    assert [pace.step(seconds) for seconds in (1.0, 1.05, 0.95, 1.0, 1.2, 1.0, 1.0, 1.0, 1.0)] == [False] * 9
    assert pace.step(1.09)
    assert not pace.step(1.0)
    assert not any(Pace(None, 0.1).step(1.0) for _ in range(9))
