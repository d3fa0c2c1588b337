"""The items of the pre-check, each with what passes, what fails and what is skipped (seed 001, table 3)."""

import os
import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor import precheck
from supervisor.precheck import FAILED, PASSED, SKIPPED, Found, Result


def look(item: str, **environment: str) -> precheck.Found:
    return precheck.items(environment)[item]()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    soft = {
        resource.RLIMIT_MEMLOCK: 16001 * 1024,
        resource.RLIMIT_NOFILE: 1000001,
        resource.RLIMIT_STACK: 8001 * 1024,
        resource.RLIMIT_NPROC: 1000001,
    }
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (soft[limit], soft[limit]))
    return soft


def size(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    stat = os.statvfs_result((4096, 4096, int(gib * 2**30) // 4096, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: stat)


def test_the_items_are_those_of_the_seed_and_their_twin_for_npus() -> None:
    assert list(precheck.items({})) == [
        "dns", "disk-size root", "disk-size shm", "disk-size cache", "ulimit", "gpu-check", "npu-check",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "gib", "result"),
    [
        ("disk-size root", 32, FAILED),
        ("disk-size root", 32.1, PASSED),
        ("disk-size shm", 1, FAILED),
        ("disk-size shm", 1.1, PASSED),
    ],
)
def test_a_disk_is_larger_not_as_large(
    monkeypatch: pytest.MonkeyPatch, item: str, gib: float, result: str
) -> None:
    size(monkeypatch, gib)

    assert look(item)[0] == result


@pytest.mark.parametrize(("gib", "result"), [(32, FAILED), (32.1, PASSED)])
def test_the_cache_is_looked_at_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gib: float, result: str
) -> None:
    size(monkeypatch, gib)

    assert look("disk-size cache", RELIGHT_CACHE_PATH=str(tmp_path))[0] == result
    assert look("disk-size cache", RELIGHT_CACHE_PATH=str(tmp_path / "none"))[0] == SKIPPED


def test_limits_that_are_just_enough_pass(limits: dict[int, int]) -> None:
    assert limits
    assert look("ulimit", RELIGHT_CHECK_RDMA="on")[0] == PASSED


@pytest.mark.parametrize(
    ("limit", "value", "word"),
    [
        (resource.RLIMIT_MEMLOCK, 16000 * 1024, "memlock"),
        (resource.RLIMIT_NOFILE, 1000000, "nofile"),
        (resource.RLIMIT_STACK, 8000 * 1024, "stack"),
        (resource.RLIMIT_NPROC, 1000000, "nproc"),
    ],
)
def test_one_limit_too_low_fails_and_is_named(
    limits: dict[int, int], limit: int, value: int, word: str
) -> None:
    limits[limit] = value
    result, reason, *_ = look("ulimit", RELIGHT_CHECK_RDMA="on")

    assert result == FAILED
    assert reason.startswith(f"{word} is ")


def test_unlimited_is_more_than_any_number(limits: dict[int, int]) -> None:
    for limit in limits:
        limits[limit] = resource.RLIM_INFINITY

    assert look("ulimit", RELIGHT_CHECK_RDMA="on")[0] == PASSED


def test_limits_matter_only_where_the_container_has_infiniband(
    limits: dict[int, int], tmp_path: Path
) -> None:
    limits[resource.RLIMIT_NOFILE] = 1024
    assert look("ulimit", RELIGHT_DEV=str(tmp_path))[0] == SKIPPED
    (tmp_path / "infiniband").mkdir()
    (tmp_path / "infiniband" / "uverbs0").touch()

    assert look("ulimit", RELIGHT_DEV=str(tmp_path))[0] == FAILED
    assert look("ulimit", RELIGHT_DEV=str(tmp_path), RELIGHT_CHECK_RDMA="off")[0] == SKIPPED


@pytest.mark.parametrize(
    ("item", "variable", "name"),
    [("gpu-check", "RELIGHT_GPUS", "nvidia"), ("npu-check", "RELIGHT_NPUS", "davinci")],
)
def test_as_many_devices_are_found_as_were_granted(
    tmp_path: Path, item: str, variable: str, name: str
) -> None:
    for device in (f"{name}0", f"{name}1", f"{name}ctl", f"{name}_manager", f"{name}-uvm"):
        (tmp_path / device).touch()
    dev = {"RELIGHT_DEV": str(tmp_path)}

    assert look(item, **dev) == Found(SKIPPED, "none granted")
    assert look(item, **dev, **{variable: "2"})[0] == PASSED
    assert look(item, **dev, **{variable: "3"}) == Found(FAILED, "found 2 of 3", granted=3, found=2)


def test_names_come_from_the_jobs_kind_and_from_volcanos_hosts_files(tmp_path: Path) -> None:
    (tmp_path / "worker.host").write_text("job-worker-0.job\njob-worker-1.job\n", encoding="utf-8")
    (tmp_path / "ps.host").write_text("job-ps-0.job", encoding="utf-8")
    (tmp_path / "key.pub").write_text("no.name", encoding="utf-8")
    environment = {"RELIGHT_VOLCANO": str(tmp_path), "RELIGHT_PEERS": "a.b, c.d"}

    assert precheck.peers(environment) == [
        "a.b",
        "c.d",
        "job-ps-0.job",
        "job-worker-0.job",
        "job-worker-1.job",
    ]


def test_names_that_resolve_pass_and_one_that_never_does_fails_within_its_time(tmp_path: Path) -> None:
    none = {"RELIGHT_VOLCANO": str(tmp_path)}
    assert look("dns", **none)[0] == SKIPPED
    assert look("dns", **none, RELIGHT_PEERS="localhost") == Found(PASSED, "1 names")
    result, reason, *_ = look(
        "dns", **none, RELIGHT_PEERS="localhost no.such.invalid", RELIGHT_CHECK_DNS_SECONDS="0"
    )

    assert result == FAILED
    assert "no.such.invalid" in reason


def test_a_name_that_appears_in_time_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    now = [0.0]

    def resolves(name: str) -> bool:
        asked.append(name)
        return name == "early" or asked.count("late") > 3

    monkeypatch.setattr(precheck, "_resolves", resolves)
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(precheck, "time", clock)

    assert look("dns", RELIGHT_VOLCANO=str(tmp_path), RELIGHT_PEERS="early late")[0] == PASSED
    assert asked.count("early") == 1, "what resolved is not asked again"


def test_a_dead_name_server_costs_the_time_of_the_item_not_of_each_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = [0.0]

    def slow(_name: str) -> bool:
        now[0] += 10
        return False

    monkeypatch.setattr(precheck, "_resolves", slow)
    monkeypatch.setattr(precheck, "time", SimpleNamespace(monotonic=lambda: now[0]))
    names = " ".join(f"n{number}" for number in range(1000))

    assert look("dns", RELIGHT_VOLCANO=str(tmp_path), RELIGHT_PEERS=names)[0] == FAILED
    assert now[0] <= 70


def test_an_item_that_breaks_is_skipped_and_every_item_is_logged(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(_path: str) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "statvfs", broken)
    told: list[Result] = []
    results = precheck.check(
        {"RELIGHT_VOLCANO": "/nowhere", "RELIGHT_GPUS": "1", "RELIGHT_DEV": "/nowhere"}, told.append
    )
    log = capfd.readouterr().err

    assert told == results
    by_item = {result.item: result.result for result in results}
    assert by_item["disk-size root"] == SKIPPED
    assert by_item["gpu-check"] == FAILED
    assert log.count("item ") == 7
    assert log.rstrip().endswith("error,exiting")
