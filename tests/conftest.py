"""What holds for every test: real parts are marked by themselves, and in CI no skip passes for success."""

from collections.abc import Generator

import hypothesis
import pytest

from tests.real import parts

pytest_plugins = ["tests.real.data", "tests.real.kafka", "tests.real.soak_report"]

# A test that asks for one of these runs on a real part. Recorded data counts, so that `make check` is the
# same everywhere.
REAL_FIXTURES = frozenset({"kafka", "new_kafka", "relight_data"})

# No deadlines: what a law says does not depend on how busy the machine is.
hypothesis.settings.register_profile("unit", deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5_000)
hypothesis.settings.load_profile("unit")


@pytest.hookimpl(tryfirst=True)  # before -m selects by these marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `real` each test that uses a fixture for a real part."""
    for item in items:
        if isinstance(item, pytest.Function) and REAL_FIXTURES.intersection(item.fixturenames):
            item.add_marker(pytest.mark.real)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where real parts are required."""
    report = yield
    if parts.are_required() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = _why(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module skipped as a whole into a failed one where real parts are required."""
    report = yield
    if parts.are_required() and report.skipped:
        report.outcome = "failed"
        report.longrepr = _why(report)
    return report


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return f"{reason}\nA skip is a failure here: RELIGHT_REQUIRE_REAL=1."
