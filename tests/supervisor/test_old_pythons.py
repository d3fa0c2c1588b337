"""Other people's images have other people's Pythons: the zipapp does its work on older ones, in real processes.

3.8 is promised. The one before it and the one after it run here (`sandbox.old_python` says why); all else about the supervisor is tested on the
Python that runs the tests.
"""

import os
import subprocess
from pathlib import Path

import pytest

from sandbox import old_python
from supervisor.wrapper import wrapped
from tests.real import parts
from tests.supervisor.container import Agent, Container, below, ended

pytestmark = [pytest.mark.real, pytest.mark.slow]
TELL = Path(__file__).resolve().parents[2] / "supervisor" / "relight_progress.py"
IMPORTS_ALL = """
import importlib, sys, zipfile
zipapp = sys.argv[1]
sys.path.insert(0, zipapp)
names = [name[:-3].replace("/", ".") for name in zipfile.ZipFile(zipapp).namelist() if name != "__main__.py"]
for name in names:
    importlib.import_module(name.replace(".__init__", ""))
print(sys.version.split()[0], len(names))
"""
COUNTED = (
    'echo "start $MA_PROC_START_CNT"; [ $MA_PROC_START_CNT = 2 ] && exit 9; touch "$HERE/up"; exec sleep 60'
)


@pytest.fixture(params=sorted(old_python.BUILDS))
def version(request: pytest.FixtureRequest) -> str:
    found = str(request.param)
    parts.need(f"CPython {found}", old_python.missing(found))
    return found


@pytest.fixture
def python(version: str) -> str:
    return str(old_python.interpreter(version))


def supervise(container: Container, python: str, script: str, **more: str) -> subprocess.Popen[str]:
    return container.run([python, "-I", "-S", str(container.zipapp), "--", "sh", "-c", script], **more)


def test_every_module_of_the_zipapp_can_be_imported(zipapp: Path, version: str, python: str) -> None:
    done = subprocess.run(
        [python, "-I", "-S", "-W", "error", "-c", IMPORTS_ALL, str(zipapp)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.split()[0] == version
    assert int(done.stdout.split()[1]) > 10, "modules"


def test_it_stops_and_starts_as_desired_and_passes_the_exit_code_on(
    container: Container, agent: Agent, python: str
) -> None:
    process = supervise(container, python, COUNTED)
    agent.accept()
    checks = [agent.until("precheck") for _ in range(7)]
    container.wait_for("up")
    agent.order("stop", attempt=3)
    agent.until("exit", signal=15, ordered=True, starts=1)
    agent.until("state", state="stopped", attempt=3)
    assert not below(process)
    agent.order("run", attempt=2)
    agent.until("refused", reason="older than the last order obeyed")
    agent.order("run", attempt=3)
    agent.until("started", starts=2, launch=2)
    agent.until("exit", code=9, ordered=False)

    assert ended(process)[:2] == (9, "start 1\nstart 2\n")
    assert {check["result"] for check in checks} <= {"passed", "skipped"}


def test_a_new_container_of_the_pod_goes_on_counting(container: Container, agent: Agent, python: str) -> None:
    first = supervise(container, python, "exit 3")
    spool = agent.accept()["spool"]
    last = agent.until("exit", code=3, launch=1)
    assert ended(first)[0] == 3
    second = supervise(container, python, "exit 4")
    assert agent.accept()["spool"] == spool
    assert agent.until("started", launch=2, starts=2)["seq"] > last["seq"]

    assert ended(second)[0] == 4


def test_relight_gone_between_stop_and_start_leaves_it_to_otherwise(
    container: Container, agent: Agent, python: str
) -> None:
    process = supervise(container, python, COUNTED)
    agent.accept()
    container.wait_for("up")
    agent.order("stop", seconds=1.0, otherwise="rerun")
    agent.until("state", state="stopped")
    agent.close()

    assert ended(process)[:2] == (9, "start 1\nstart 2\n")


def test_without_an_agent_the_command_ends_as_it_ends(container: Container, python: str) -> None:
    assert ended(supervise(container, python, "kill -TERM $$"))[0] == -15


def test_what_the_training_process_tells_is_heard(container: Container, agent: Agent, python: str) -> None:
    script = "from relight_progress import tell\ntell('milestone', 'first_step', step=1)\ntell('step', 7)\ninput()\n"
    (container.folder / "train.py").write_text(script, encoding="utf-8")
    (container.folder / "relight_progress.py").write_bytes(TELL.read_bytes())
    os.mkfifo(container.folder / "go")
    process = supervise(container, python, f'{python} "$HERE/train.py" < "$HERE/go"')
    agent.accept()
    agent.until("started")
    with (container.folder / "go").open("w", encoding="utf-8") as go:
        assert agent.until("milestone", name="first_step")["step"] == 1
        agent.until("progress", step=7)
        go.write("\n")

    assert ended(process)[0] == 0


def test_the_wrapper_supervises_with_it_and_runs_the_command_bare_when_the_zipapp_is_damaged(
    container: Container, agent: Agent, python: str
) -> None:
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    command = wrapped(["sh", "-c", 'echo "ran $MA_PROC_START_CNT"; exit 5'])
    supervised = container.run(command, PATH=path)
    agent.accept()
    agent.until("exit", code=5)
    assert ended(supervised)[:2] == (5, "ran 1\n")
    damaged = container.folder / "damaged.pyz"
    damaged.write_bytes(container.zipapp.read_bytes()[:2000])

    assert ended(container.run(command, PATH=path, RELIGHT_SUPERVISOR=str(damaged)))[:2] == (5, "ran \n")
