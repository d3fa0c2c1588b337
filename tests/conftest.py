"""What holds for every test: real parts are marked by themselves, and laws do not depend on the machine."""

from pathlib import Path

import hypothesis
import pytest

pytest_plugins = [
    "tests.real.parts",
    "tests.real.data",
    "tests.real.kafka",
    "tests.real.kubernetes",
    "tests.real.soak_report",
    "tests.real.store",
]

# A test that asks for one of these runs on a real part. Recorded data counts, so that `make check` is the
# same everywhere. A cluster does not count by itself: on the stand-in it needs no real part (tests.real.kubernetes).
REAL_FIXTURES = frozenset(
    {
        "clickhouse",
        "containers",
        "kafka",
        "new_kafka",
        "new_kubelet",
        "relight_data",
    }
)

# Many processes of relight's at once, each with leases and timeouts of seconds: two such tests at a time starve each other.
ALONE = (Path(__file__).parent / "end_to_end", Path(__file__).parent / "torture")

# No deadlines: what a law says does not depend on how busy the machine is.
hypothesis.settings.register_profile("unit", deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5_000)
hypothesis.settings.load_profile("unit")


@pytest.hookimpl(tryfirst=True)  # before -m selects by these marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `real` each test that uses a fixture for a real part, and as `alone` what needs the machine to itself."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in ALONE):
            item.add_marker(pytest.mark.alone)
        if isinstance(item, pytest.Function) and REAL_FIXTURES.intersection(item.fixturenames):
            item.add_marker(pytest.mark.real)
