"""Services of docker-compose.yml outside containers: each starts by its own command and environment and answers its own health check.

The broker's settings are ones a real broker knows; without a broker each says so and ends, to be started again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # its documented place

from sandbox import tied_process
from sandbox.clickhouse import ClickHouse
from sandbox.control_plane import ControlPlane
from sandbox.kafka_server import KafkaBroker
from sandbox.ports import free_ports
from tests.deploy.composed import OURS, ROOT, SERVICES, argv_of, environment_of

REAL_PLANE_ONLY = "composed services are to run on what they are composed for"

PATIENCE = 60.0
ONCE = [name for name, service in OURS.items() if service["restart"] == "no"]
IMAGE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONSAFEPATH": "1"}
"""What the image sets, as far as it matters to a process."""
STAY = [name for name in OURS if name not in ONCE]


class Engine:
    """Starts services as an engine would: their own words, their own environment, nothing of ours.

    Only addresses are those of this machine, and the store has no passwords.
    """

    def __init__(self, kafka: KafkaBroker, store: ClickHouse, plane: ControlPlane, folder: Path) -> None:
        self._addresses = {
            "RELIGHT_KAFKA__BOOTSTRAP": kafka.bootstrap,
            "RELIGHT_STORE__HOST": "127.0.0.1",
            "RELIGHT_STORE__PORT": str(store.port),
            "RELIGHT_STORE__DATABASE": "composed",
            "RELIGHT_KUBERNETES__KUBECONFIG": str(plane.kubeconfig),
            "RELIGHT_TOPICS__PREFIX": "composed.",
            "RELIGHT_LEASE__NAMESPACE": "default",
        }
        self._folder = folder
        self.ports = dict(zip(STAY, free_ports(len(STAY)), strict=True))

    def environment(self, name: str) -> dict[str, str]:
        """The image's and the service's."""
        mine = environment_of(OURS[name])
        found = {name: value for name, value in self._addresses.items() if name in mine or "__PREFIX" in name}
        if "RELIGHT_STORE__HOST" in mine:
            found |= {key: value for key, value in self._addresses.items() if "STORE" in key}
            found |= {key: "" for key in mine if key.endswith("__PASSWORD")}
        if name == "watcher":
            found["RELIGHT_LEASE__NAMESPACE"] = self._addresses["RELIGHT_LEASE__NAMESPACE"]
        if name in self.ports:
            found["RELIGHT_OBSERVE__PORT"] = str(self.ports[name])
        return {**IMAGE, **mine, **found}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """A service that ends."""
        return subprocess.run(
            self._argv(name),
            env=self.environment(name),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self, name: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """A service that stays."""
        return tied_process.start(
            self._argv(name), env=self.environment(name), cwd=self._folder, stdout=log, stderr=log
        )

    def is_healthy(self, name: str) -> bool:
        """Its own health check, from the file; only the port is another."""
        kind, program, *arguments = OURS[name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        words = [one.replace("9464", str(self.ports[name])) for one in arguments]
        done = subprocess.run([sys.executable, *words], capture_output=True, timeout=PATIENCE, check=False)
        return done.returncode == 0

    def _argv(self, name: str) -> list[str]:
        return argv_of(OURS[name])


@pytest.fixture
def engine(
    kafka: KafkaBroker, clickhouse: ClickHouse, cluster: ControlPlane, tmp_path: Path
) -> Iterator[Engine]:
    yield Engine(kafka, clickhouse, cluster, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    made = [name for name in admin.list_topics(timeout=20).topics if name.startswith("composed.")]
    for future in admin.delete_topics(made).values():
        future.result(20)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_service_starts_by_its_own_command_and_is_healthy_by_its_own_check(
    engine: Engine, tmp_path: Path
) -> None:
    for name in ONCE:
        done = engine.run(name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    again = engine.run("setup")
    assert again.returncode == 0, "what is run at each start must do no harm the second time"

    with ExitStack() as stack:
        running = {}
        for name in STAY:
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            running[name] = engine.start(name, log)
            stack.callback(_ended, running[name])
        waiting, ends = set(STAY), time.monotonic() + 4 * PATIENCE
        while waiting:
            for name in sorted(waiting):
                said = (tmp_path / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                assert running[name].poll() is None, f"{name} ended: {said}"
                if engine.is_healthy(name):
                    waiting.discard(name)
            assert time.monotonic() < ends, f"not healthy: {waiting}"
            time.sleep(0.2)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["setup", "router", "recovery"])
def test_without_a_broker_it_says_so_and_ends_so_that_it_is_started_again(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        argv_of(OURS[name]),
        env={
            **IMAGE,
            **environment_of(OURS[name]),
            "RELIGHT_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_ports(1)[0]}",
            "RELIGHT_TOPICS__PATIENCE": "1s",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "broker" in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_of_the_broker_are_ones_a_real_broker_knows(kafka: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (broker,) = admin.list_topics(timeout=20).brokers
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    known = set(admin.describe_configs([resource])[resource].result(20))

    given = {
        variable.removeprefix("KAFKA_").lower().replace("_", ".")
        for variable in SERVICES["kafka"]["environment"]
        if variable.startswith("KAFKA_")
    }
    assert given <= known, f"no such settings of a broker: {given - known}"


def test_variables_of_the_store_are_those_its_users_file_reads() -> None:
    users = (ROOT / "deploy" / "clickhouse" / "users.xml").read_text(encoding="utf-8")

    assert {f'from_env="{name}"' in users for name in SERVICES["clickhouse"]["environment"]} == {True}


def test_passwords_of_one_user_are_the_same_on_both_sides() -> None:
    store = environment_of(SERVICES["clickhouse"])
    given = {
        variable: value
        for service in OURS.values()
        for variable, value in environment_of(service).items()
        if variable.endswith("__PASSWORD")
    }

    assert {name.split("__")[1] for name in given} == {"MIGRATOR", "WRITER"}
    for variable, value in given.items():
        assert value == store[f"{variable.split('__')[1]}_PASSWORD"]


@pytest.mark.parametrize("name", STAY)
def test_the_health_check_asks_the_port_that_is_set(name: str) -> None:
    service = OURS[name]

    assert f":{environment_of(service)['RELIGHT_OBSERVE__PORT']}/healthz" in " ".join(
        service["healthcheck"]["test"]
    )
