"""What a test does when a real part is missing: skip on a laptop, fail in CI.

With ``RELIGHT_REQUIRE_REAL=1`` no skip survives, whichever way it was asked for (``need``, ``pytest.skip``, a
``skipif`` mark, ``importorskip``): this plugin turns every skipped report into a failed one. A green run
in CI therefore means that everything ran.
"""

import os
from collections.abc import Generator
from typing import NoReturn

import pytest


def are_required() -> bool:
    """Whether a missing real part is a failure (``RELIGHT_REQUIRE_REAL=1``)."""
    return os.environ.get("RELIGHT_REQUIRE_REAL", "") == "1"


def need(part: str, missing: str | None) -> None:
    """Go on when `part` is there (`missing` is None), otherwise skip or fail and say how to get it."""
    if missing is not None:
        give_up(part, missing)


def give_up(part: str, missing: str) -> NoReturn:
    """Skip the test for want of `part`, or fail it where real parts are required."""
    reason = f"{part} is missing: {missing}"
    if are_required():
        pytest.fail(f"{reason} (RELIGHT_REQUIRE_REAL=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where real parts are required."""
    report = yield
    if are_required() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = _why(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module skipped as a whole into a failed one where real parts are required."""
    report = yield
    if are_required() and report.skipped:
        report.outcome = "failed"
        report.longrepr = _why(report)
    return report


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return f"{reason}\nA skip is a failure here: RELIGHT_REQUIRE_REAL=1."
