"""A missing real part is a skip on a laptop and a failure in CI, whichever way the test asked to be skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ASKED_IN_EACH_WAY = """
import pytest
from tests.real import parts

def test_by_need():
    parts.need("Kafka", "run `make real`")

def test_by_hand():
    pytest.skip("no Kafka")

@pytest.mark.skipif(True, reason="no Kafka")
def test_by_condition():
    raise AssertionError("not reached")

@pytest.mark.skip(reason="no Kafka")
def test_by_mark():
    raise AssertionError("not reached")

def test_by_import():
    pytest.importorskip("no_such_kafka_client")

@pytest.fixture
def broker():
    pytest.skip("no Kafka")

def test_by_fixture(broker):
    raise AssertionError("not reached")
"""

WHOLE_MODULE = """
import pytest

pytest.skip("no Kafka", allow_module_level=True)
"""

NOTHING_MISSING = """
import pytest
from tests.real import parts

def test_goes_on():
    parts.need("Kafka", None)

@pytest.mark.xfail(reason="known", strict=True)
def test_known_to_fail():
    raise AssertionError
"""

NEEDS_DATA = """
def test_reads(relight_data):
    assert relight_data.is_dir()
"""


def outcome_of(source: str, folder: Path, **environment: str) -> str:
    """The last line that pytest prints for a module with this source."""
    (folder / "test_inner.py").write_text(source, encoding="utf-8")
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("RELIGHT_", "PYTEST_"))
    }
    command = [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder),
        "-p", "no:cacheprovider", "-p", "tests.real.parts", "-p", "tests.real.data", "test_inner.py",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=folder,
        env=outside | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return done.stdout.strip().splitlines()[-1]


def test_a_missing_part_is_a_skip_on_a_laptop(tmp_path: Path) -> None:
    assert outcome_of(ASKED_IN_EACH_WAY, tmp_path).startswith("6 skipped")


def test_every_way_to_skip_is_a_failure_where_real_parts_are_required(tmp_path: Path) -> None:
    assert outcome_of(ASKED_IN_EACH_WAY, tmp_path, RELIGHT_REQUIRE_REAL="1").startswith("3 failed, 3 errors")


def test_a_module_skipped_as_a_whole_is_a_failure_where_real_parts_are_required(tmp_path: Path) -> None:
    assert outcome_of(WHOLE_MODULE, tmp_path).startswith("1 skipped")
    assert "1 error" in outcome_of(WHOLE_MODULE, tmp_path, RELIGHT_REQUIRE_REAL="1")


def test_a_test_that_has_what_it_needs_and_one_known_to_fail_are_left_alone(tmp_path: Path) -> None:
    assert outcome_of(NOTHING_MISSING, tmp_path, RELIGHT_REQUIRE_REAL="1").startswith("1 passed, 1 xfailed")


@pytest.mark.parametrize("named", [{}, {"RELIGHT_DATA": "no/such/folder"}])
def test_recorded_data_that_is_missing_is_a_failure_where_real_parts_are_required(
    tmp_path: Path, named: dict[str, str]
) -> None:
    assert outcome_of(NEEDS_DATA, tmp_path, **named).startswith("1 skipped")
    assert "1 error" in outcome_of(NEEDS_DATA, tmp_path, RELIGHT_REQUIRE_REAL="1", **named)
    assert outcome_of(NEEDS_DATA, tmp_path, RELIGHT_DATA=str(tmp_path)).startswith("1 passed")
