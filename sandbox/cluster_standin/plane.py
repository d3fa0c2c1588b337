"""The stand-in as something to start and stop, with the face of `sandbox.control_plane.ControlPlane`: a stage takes either.

Guarantees: it serves when `start` returns; port and users survive `kill` and `start`, what was stored does not (it is in memory): a watch
from before is told that it is too old. It never outlives the process that started it. Not safe to drive from several threads at once.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sandbox import ports
from sandbox.component import Component
from sandbox.control_plane import Options
from sandbox.errors import NotRunning, StartFailed, Unsupported

FIRST_START_TRIES: Final = 3  # somebody else may take the port between our choice and the bind
ASK_SECONDS: Final = 2.0
CONTROLLERS: Final = "system:kube-controller-manager"
ROOT: Final = Path(__file__).resolve().parents[2]


class ClusterStandIn:
    """A cluster of its own, in a folder of its own; the first start of this object empties it.

    Users are known by bearer tokens, over plain HTTP on loopback. Rights are not stood in for: every user may do everything, so that a
    test of rights belongs on the real control plane. A client inside a pod finds no way to it: that one speaks TLS, with a token of its account.
    """

    def __init__(
        self, folder: Path, options: Options | None = None, *, collect_every: timedelta | None = None
    ) -> None:
        """Raises Unsupported for options that only the real control plane has.

        Args:
            folder: of its own; the first start empties it.
            options: as the real one's.
            collect_every: how often pods are looked for that nobody ends any more; as Kubernetes does, 20 s, when it is not given.
        """
        self._folder = folder
        self._options = options or Options()
        self._collect_every = collect_every
        _need_served(self._options)
        self._port = 0
        self._admin_token = secrets.token_hex(16)
        self._server: Component | None = None

    @property
    def url(self) -> str:
        """The API server's address; known after the first `start` and the same ever after."""
        self._known()
        return f"http://{ports.LOOPBACK}:{self._port}"

    @property
    def admin_token(self) -> str:
        """The bearer token of user `admin`."""
        return self._admin_token

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of user `admin`."""
        self._known()
        return self._folder / "kubeconfig"

    @property
    def components(self) -> list[Component]:
        """What it consists of: one process."""
        return [self._known()]

    @property
    def api_server(self) -> Component:
        """The one process."""
        return self._known()

    def kubeconfig_of(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write the kubeconfig of any user. Groups say what a user may do, which is everything here."""
        del groups
        self._known()
        return self._admit(user, secrets.token_hex(16))

    def start(self) -> Self:
        """Start if it does not run, and wait until it serves. The first start makes a fresh, empty cluster.

        Raises:
            StartFailed: it ended or did not serve in time; the message holds the end of its log.
        """
        if self._server is not None:
            self._server.start()
            return self
        for last in (False,) * (FIRST_START_TRIES - 1) + (True,):
            server = self._prepare()
            try:
                server.start()
            except StartFailed:
                if last or ports.is_free(self._port):
                    raise
            else:
                self._server = server
                break
        return self

    def stop(self) -> None:
        """Stop it in good order. Does nothing when it is down."""
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """End it at once, as a power cut does. Does nothing when it is down."""
        if self._server is not None:
            self._server.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _known(self) -> Component:
        if self._server is None:
            raise NotRunning("the stand-in has no address before its first start")
        return self._server

    def _prepare(self) -> Component:
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "users").mkdir(parents=True)
        (self._port,) = ports.free_ports(1)
        self._write(self._folder / "kubeconfig", "admin", self._admin_token)
        self._admit(CONTROLLERS, secrets.token_hex(16))
        # `env`: a component takes the environment as it is, and the program is found where this one lies.
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return Component(
            "cluster stand-in",
            [
                "/usr/bin/env",
                f"PYTHONPATH={paths}",
                sys.executable,
                "-m",
                "sandbox.cluster_standin",
                *self._arguments(),
            ],
            log_file=self._folder / "cluster-standin.log",
            is_ready=self._is_ready,
            patience=self._options.patience,
        )

    def _arguments(self) -> list[str]:
        options = self._options
        told = [
            str(self._folder),
            f"--port={self._port}",
            f"--unreachable-toleration={int(options.unreachable_toleration.total_seconds())}",
        ]
        if not options.controller_manager:
            told.append("--without-controllers")
        if self._collect_every is not None:
            told.append(f"--collect-every={self._collect_every.total_seconds()}")
        if options.node_lifecycle is None:
            told.append("--leave-nodes")
        else:
            for name in ("monitor_grace", "monitor_period", "startup_grace"):
                seconds = getattr(options.node_lifecycle, name).total_seconds()
                told.append(f"--{name.replace('_', '-')}={seconds}")
        return told

    def _admit(self, user: str, token: str) -> Path:
        # The official client takes a colon in a path for the beginning of another path.
        file = self._folder / "users" / f"{re.sub(r'[/:]', '_', user.removeprefix('system:'))}.kubeconfig"
        return self._write(file, user, token)

    def _write(self, file: Path, user: str, token: str) -> Path:
        with (self._folder / "tokens.csv").open("a", encoding="ascii") as tokens:
            tokens.write(f"{token},{user}\n")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": f"http://{ports.LOOPBACK}:{self._port}"}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
            "current-context": "sandbox",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(config, indent=2), encoding="utf-8")  # JSON is YAML
        return file

    def _is_ready(self) -> bool:
        # Without the machine's proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{ports.LOOPBACK}:{self._port}/readyz", timeout=ASK_SECONDS) as answer:
                return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's OK
        except (urllib.error.URLError, OSError):
            return False


def _need_served(options: Options) -> None:
    odd = []
    if options.arguments:
        odd.append("arguments of the real programs")
    if options.scheduler != options.controller_manager:
        odd.append("controllers without a scheduler, or a scheduler alone")
    if odd:
        raise Unsupported(f"the cluster stand-in has no {', no '.join(odd)}: take the real control plane")
