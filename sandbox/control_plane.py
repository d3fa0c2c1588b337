"""A real Kubernetes control plane on loopback ports: etcd, API server, controller manager, scheduler.

``with ControlPlane(folder) as cluster: ... cluster.kubeconfig``. Guarantees: the API is ready and, where there is a controller
manager, the default service account exists when `start` returns, so that a pod can be created at once; data, ports and
certificates survive `kill` and `start` of any part; nothing outlives the process that started it. Not safe to drive from several
threads at once.

Why the real one: conditional writes, evictions, job bookkeeping and node lifecycle are what recovery stands on, and a stand-in only
repeats what we believe of them (design 10). There is no kubelet in it: `sandbox.kubelet` is one.
"""

import base64
import json
import re
import secrets
import shutil
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sandbox import certificates, control_plane_build, ports
from sandbox.certificates import Certificate, CertificateAuthority
from sandbox.component import Component
from sandbox.errors import NotRunning, PartMissing, StartFailed

FIRST_START_TRIES: Final = 3  # somebody else may take a port between our choice and the bind
ASK_SECONDS: Final = 2.0
SERVER_HOSTS: Final = (f"IP:{ports.LOOPBACK}", "IP:10.0.0.1", "DNS:localhost", "DNS:kubernetes.default.svc")
MASTERS: Final = "system:masters"  # the group that may do everything, bound by the API server itself


@dataclass(frozen=True, slots=True)
class NodeLifecycle:
    """How the controller manager judges nodes. Kubernetes' own values are 50 s, 5 s, 60 s: tests shorten them.

    Args:
        monitor_grace: a Ready node whose Lease and status were not renewed for so long becomes NotReady (Unknown).
        monitor_period: how often nodes are looked at.
        startup_grace: the same as `monitor_grace` for a node that was never heard of.
    """

    monitor_grace: timedelta = timedelta(seconds=50)
    monitor_period: timedelta = timedelta(seconds=5)
    startup_grace: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Options:
    """What a control plane consists of.

    Args:
        controller_manager: whether there is one. Without it no Job makes pods and no service account exists.
        scheduler: whether there is one. Without it pods wait until a test binds them.
        node_lifecycle: None leaves nodes as they are, whatever their heartbeats do.
        unreachable_toleration: how long pods stay on a node that is NotReady or unreachable; Kubernetes' own is 5 min.
        arguments: more arguments by program (`kube-apiserver` and so on), after ours; lists such as admission plugins add up.
        patience: how long each program may take to come up, and to stop.
    """

    controller_manager: bool = True
    scheduler: bool = True
    node_lifecycle: NodeLifecycle | None = field(default_factory=NodeLifecycle)
    unreachable_toleration: timedelta = timedelta(minutes=5)
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    patience: timedelta = timedelta(seconds=45)


def missing() -> str | None:
    """What a control plane lacks on this machine and how to get it, or None when it can start."""
    return control_plane_build.missing() or certificates.missing()


class ControlPlane:
    """A cluster of its own, in a folder of its own; the first start of this object empties it.

    `etcd`, `api_server`, `controller_manager` and `scheduler` (None where there is none) can each be killed, frozen and started
    again; see `Component`.
    """

    etcd: Component
    api_server: Component
    controller_manager: Component | None
    scheduler: Component | None

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self._folder = folder
        self._options = options or Options()
        self._authority: CertificateAuthority | None = None
        self._certificate = Certificate(Path(), Path())
        self._admin_token = secrets.token_hex(16)
        self._ports: dict[str, int] = {}
        self._trust = ssl.create_default_context()

    @property
    def url(self) -> str:
        """The API server's address; known after the first `start` and the same ever after."""
        self._known()
        return f"https://{ports.LOOPBACK}:{self._ports['kube-apiserver']}"

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the API server."""
        return self._known().certificate.file

    @property
    def admin_token(self) -> str:
        """The bearer token of user `admin`, who may do everything."""
        return self._admin_token

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of user `admin`."""
        self._known()
        return self._folder / "kubeconfig"

    @property
    def components(self) -> list[Component]:
        """What this control plane consists of, in the order of starting."""
        self._known()
        every = (self.etcd, self.api_server, self.controller_manager, self.scheduler)
        return [component for component in every if component is not None]

    def kubeconfig_of(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write the kubeconfig of any user, known to the API server by a certificate. What it may do RBAC says."""
        # The official client takes a colon in a path for the beginning of another path.
        file = self._folder / "users" / f"{re.sub(r'[/:]', '_', user)}.kubeconfig"
        file.parent.mkdir(exist_ok=True)
        certificate = self._known().for_user(user, groups)
        return self._write_kubeconfig(
            file, user, {"client-certificate": str(certificate.file), "client-key": str(certificate.key)}
        )

    def certificate_for(self, name: str, hosts: Sequence[str] = SERVER_HOSTS) -> Certificate:
        """Sign a certificate for a server that the API server calls, such as a webhook; `ca_file` vouches for it."""
        return self._known().for_server(name, hosts)

    def start(self) -> Self:
        """Start what does not run, and wait until it serves. The first start makes a fresh, empty cluster.

        Raises:
            PartMissing: the programs were not built, or there is no `openssl`.
            StartFailed: a part ended or did not serve in time; the message holds the end of its log.
        """
        lacking = missing()
        if lacking is not None:
            raise PartMissing(lacking)
        if self._authority is None:
            self._start_fresh()
        else:
            self._launch()
        return self

    def stop(self) -> None:
        """Stop everything in good order, last started first. Does nothing when it is down."""
        running = [component for component in self._started() if component.is_running]
        for component in running:
            component.resume()  # an API server does not end while its etcd is frozen
        for component in reversed(running):
            component.stop()

    def kill(self) -> None:
        """End everything at once, as a power cut does. Does nothing when it is down."""
        for component in reversed(self._started()):
            component.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> list[Component]:
        return [] if self._authority is None else self.components

    def _known(self) -> CertificateAuthority:
        if self._authority is None:
            raise NotRunning("the control plane has no address before its first start")
        return self._authority

    def _start_fresh(self) -> None:
        for last in (False,) * (FIRST_START_TRIES - 1) + (True,):
            self._prepare()
            try:
                self._launch()
            except StartFailed:
                self.kill()
                taken = any(not ports.is_free(port) for port in self._ports.values())
                self._authority = None
                if last or not taken:
                    raise
            else:
                return

    def _prepare(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        names = ("etcd", "etcd-peers", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
        self._ports = dict(zip(names, ports.free_ports(len(names)), strict=True))
        self._authority = CertificateAuthority(self._folder / "certificates")
        self._certificate = self._authority.for_server("control-plane", SERVER_HOSTS)
        self._trust = ssl.create_default_context(cafile=str(self.ca_file))
        certificates.signing_key(self._folder / "service-accounts.key")
        (self._folder / "tokens.csv").write_text(f'{self._admin_token},admin,admin,"{MASTERS}"\n', "ascii")
        self._write_kubeconfig(self.kubeconfig, "admin", {"token": self._admin_token})
        self.etcd = self._component("etcd", self._etcd_arguments(), self._etcd_is_healthy)
        self.api_server = self._component("kube-apiserver", self._api_server_arguments(), self._api_is_ready)
        self.controller_manager = self._controller_manager() if self._options.controller_manager else None
        self.scheduler = self._scheduler() if self._options.scheduler else None

    def _launch(self) -> None:
        # The later ones wait for the API server by themselves, but give up after 10 s, which a busy machine may need.
        for together in (self.components[:2], self.components[2:]):
            for component in together:
                component.launch()
            for component in together:
                component.wait_until_ready()

    def _component(self, name: str, arguments: Sequence[str], is_ready: Callable[[], bool]) -> Component:
        program = str(control_plane_build.program(name))
        return Component(
            name,
            [program, *arguments, *self._options.arguments.get(name, ())],
            log_file=self._folder / f"{name}.log",
            is_ready=is_ready,
            patience=self._options.patience,
        )

    def _etcd_arguments(self) -> list[str]:
        clients, peers = self._address("etcd"), self._address("etcd-peers")
        return [
            "--name=sandbox", f"--data-dir={self._folder / 'etcd'}", "--log-level=warn",
            f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=sandbox={peers}",
            "--unsafe-no-fsync",  # survives a killed process, not a power cut: ten times as fast on a slow disk
        ]  # fmt: skip

    def _api_server_arguments(self) -> list[str]:
        toleration = int(self._options.unreachable_toleration.total_seconds())
        accounts = self._folder / "service-accounts.key"
        return [
            f"--etcd-servers={self._address('etcd')}",
            f"--bind-address={ports.LOOPBACK}", f"--secure-port={self._ports['kube-apiserver']}",
            f"--advertise-address={ports.LOOPBACK}", "--endpoint-reconciler-type=none",
            *self._serving(), f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={self._folder / 'tokens.csv'}", "--authorization-mode=Node,RBAC",
            f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true", "--profiling=false",
            f"--default-not-ready-toleration-seconds={toleration}",
            f"--default-unreachable-toleration-seconds={toleration}",
            # A new node is tainted as not ready until the lifecycle controller takes that off: without it, nobody would.
            *(["--disable-admission-plugins=TaintNodesByCondition"] if self._options.node_lifecycle is None else []),
        ]  # fmt: skip

    def _controller_manager(self) -> Component:
        name = "kube-controller-manager"
        lifecycle = self._options.node_lifecycle
        arguments = [
            *self._client_arguments(name),
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self._folder / 'service-accounts.key'}",
        ]
        if lifecycle is None:
            arguments.append("--controllers=*,-node-lifecycle-controller")
        else:
            arguments += [
                f"--node-monitor-grace-period={lifecycle.monitor_grace.total_seconds()}s",
                f"--node-monitor-period={lifecycle.monitor_period.total_seconds()}s",
                f"--node-startup-grace-period={lifecycle.startup_grace.total_seconds()}s",
            ]
        return self._component(name, arguments, lambda: self._serves(name) and self._default_account_exists())

    def _scheduler(self) -> Component:
        name = "kube-scheduler"
        return self._component(name, self._client_arguments(name), lambda: self._serves(name))

    def _client_arguments(self, name: str) -> list[str]:
        # Each is itself in logs and managed fields; the group saves one service account for each controller.
        return [
            f"--kubeconfig={self.kubeconfig_of(f'system:{name}', [MASTERS])}",
            f"--bind-address={ports.LOOPBACK}", f"--secure-port={self._ports[name]}", *self._serving(),
            "--leader-elect=false", "--profiling=false", "--kube-api-qps=500", "--kube-api-burst=1000",
        ]  # fmt: skip

    def _serving(self) -> list[str]:
        return [
            f"--tls-cert-file={self._certificate.file}",
            f"--tls-private-key-file={self._certificate.key}",
        ]

    def _write_kubeconfig(self, file: Path, user: str, credentials: Mapping[str, str]) -> Path:
        authority = base64.b64encode(self.ca_file.read_bytes()).decode("ascii")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "sandbox", "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": user, "user": dict(credentials)}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
            "current-context": "sandbox",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(config, indent=2), encoding="utf-8")  # JSON is YAML
        return file

    def _address(self, name: str) -> str:
        return f"http://{ports.LOOPBACK}:{self._ports[name]}"

    def _etcd_is_healthy(self) -> bool:
        return _answers(HTTPConnection(ports.LOOPBACK, self._ports["etcd"], timeout=ASK_SECONDS), "/health")

    def _api_is_ready(self) -> bool:
        return self._serves("kube-apiserver", "/readyz")

    def _default_account_exists(self) -> bool:
        return self._serves("kube-apiserver", "/api/v1/namespaces/default/serviceaccounts/default")

    def _serves(self, name: str, path: str = "/healthz") -> bool:
        server = HTTPSConnection(ports.LOOPBACK, self._ports[name], timeout=ASK_SECONDS, context=self._trust)
        return _answers(server, path, {"Authorization": f"Bearer {self._admin_token}"})


def _answers(server: HTTPConnection, path: str, headers: Mapping[str, str] | None = None) -> bool:
    """Whether a server is there and answers 200. Without urllib, which would ask the machine's proxy."""
    try:
        server.request("GET", path, headers=dict(headers or {}))
        response = server.getresponse()
        response.read()
        return response.status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        server.close()
