"""Runs the stand-in: ``python -m sandbox.cluster_standin FOLDER --port PORT``. It ends with SIGTERM or Ctrl-C.

FOLDER holds `kubeconfig` and `tokens.csv` (token,user a line), as `ClusterStandIn` writes them.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import importlib
import importlib.util
import signal
import threading
from datetime import timedelta
from pathlib import Path
from typing import Final

from aiohttp import web

from runtime import logs
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox import ports
from sandbox.cluster_standin import resources, schema
from sandbox.cluster_standin.registry import Registry
from sandbox.cluster_standin.server import Server
from sandbox.cluster_standin.store import KEPT_CHANGES, Store
from sandbox.control_plane import NodeLifecycle

CONTROLLERS: Final = "sandbox.cluster_standin.controllers"
_LOG: Final = logs.get(__name__)


class Users(dict[str, str]):
    """Users by token, read again from the file when one is not known: the starter adds some while this runs."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def get(self, token: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The user of a token."""
        if token and token not in self:
            with self._file.open(encoding="ascii", newline="") as lines:
                self.update({line[0]: line[1] for line in csv.reader(lines) if line})
        return super().get(token, default)


def main() -> None:
    """Serve until told to end."""
    logs.configure("INFO")
    asyncio.run(_serve(_options()))


def _options() -> argparse.Namespace:
    default = NodeLifecycle()
    parser = argparse.ArgumentParser(prog="python -m sandbox.cluster_standin", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--kept-changes", type=int, default=KEPT_CHANGES, help="changes a watch can begin before"
    )
    parser.add_argument("--unreachable-toleration", type=int, default=300, help="seconds")
    parser.add_argument("--without-controllers", action="store_true")
    parser.add_argument("--leave-nodes", action="store_true", help="whatever their heartbeats do")
    parser.add_argument("--collect-every", type=float, default=20.0, help="seconds")
    for name in ("monitor_grace", "monitor_period", "startup_grace"):
        seconds = getattr(default, name).total_seconds()
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=seconds, help="seconds")
    return parser.parse_args()


async def _serve(options: argparse.Namespace) -> None:
    folder: Path = options.folder
    schema.prepare(*(resource.model for resource in resources.ALL))
    store = Store(kept=options.kept_changes)
    registry = Registry(store, unreachable_toleration=options.unreachable_toleration)
    server = Server(registry, Users(folder / "tokens.csv"))
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, ports.LOOPBACK, options.port).start()
    stop, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    thread = None if options.without_controllers else _controllers(options, stop)
    await ended.wait()
    stop.set()
    await runner.cleanup()
    if thread is not None:
        thread.join(5)


def _controllers(options: argparse.Namespace, stop: threading.Event) -> threading.Thread | None:
    """Start the controllers in a thread of their own, as a client like any other."""
    if importlib.util.find_spec(CONTROLLERS) is None:
        _LOG.warning("there are no controllers: jobs make no pods, pods are not bound")
        return None
    judged = NodeLifecycle(
        monitor_grace=timedelta(seconds=options.monitor_grace),
        monitor_period=timedelta(seconds=options.monitor_period),
        startup_grace=timedelta(seconds=options.startup_grace),
    )
    lifecycle = None if options.leave_nodes else judged
    collect_every = timedelta(seconds=options.collect_every)
    kubeconfig = options.folder / "users" / "kube-controller-manager.kubeconfig"
    settings = KubernetesSettings(kubeconfig=kubeconfig, rate=1000, burst=1000)

    def run() -> None:
        controllers = importlib.import_module(CONTROLLERS)
        cluster = Cluster(settings, "kube-controller-manager")
        controllers.run(cluster, lifecycle, stop, collect_every=collect_every)

    thread = threading.Thread(target=run, name="controllers", daemon=True)
    thread.start()
    return thread


if __name__ == "__main__":
    main()
