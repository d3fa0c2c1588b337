"""Small pods on the nodes of a test, and looks at them until they are as they should be."""

import time
from collections.abc import Callable
from typing import TypeVar

from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Cluster, Object
from sandbox.kubelet import Kubelet

T = TypeVar("T")
SECONDS = 40.0
FOREVER = ["sleep", "600"]  # as process 1 it does not hear SIGTERM
OBEYS = ["sh", "-c", "trap 'exit 3' TERM; echo up; while true; do sleep 0.05; done"]
CHIPS = "huawei.com/Ascend910"


def until(look: Callable[[], T], holds: Callable[[T], bool] = bool) -> T:
    """Look until it holds; fail with what was seen last."""
    deadline = time.monotonic() + SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"still {seen}"
        time.sleep(0.02)
    return seen


def container(command: list[str], name: str = "main", **more: object) -> Object:
    return {"name": name, "image": "none", "command": command, **more}


def pod(name: str, node: Kubelet, *containers: Object, **spec: object) -> Object:
    selector = {"kubernetes.io/hostname": node.name}
    body = {"restartPolicy": "Never", "nodeSelector": selector, "containers": list(containers), **spec}
    return {"metadata": {"name": name, "annotations": {"say": "hello"}}, "spec": body}


class Pods:
    """Makes pods in a namespace and looks at them."""

    def __init__(self, api: Cluster, namespace: str, node: Kubelet) -> None:
        self.api, self.namespace, self.node = api, namespace, node

    def run(self, name: str, *containers: Object, **spec: object) -> None:
        self.api.create(paths.pods(self.namespace), pod(name, self.node, *containers, **spec))

    def get(self, name: str) -> Object:
        return self.api.get(paths.pods(self.namespace, name))

    def phase(self, name: str) -> str:
        return str(self.get(name)["status"]["phase"])

    def in_phase(self, name: str, phase: str) -> Object:
        until(lambda: self.phase(name), lambda seen: seen == phase)
        return self.get(name)

    def status(self, name: str) -> Object:
        found: Object = self.get(name)["status"].get("containerStatuses", [{}])[0]
        return found

    def is_gone(self, name: str) -> bool:
        try:
            self.get(name)
        except ApiNotFound:
            return True
        return False

    def log(self, name: str, run: int = 0) -> str:
        return self.node.log(self.namespace, name, "main", run)

    def pid(self, name: str) -> int:
        return self.node.pid_of(self.namespace, name, "main")
