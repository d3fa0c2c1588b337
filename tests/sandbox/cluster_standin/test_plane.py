"""The stand-in as a process: started, killed, started again, and what it says that it is not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime import paths
from runtime.errors import ApiForbidden, ApiGone, ApiNotFound
from runtime.informer import Difference, Informer
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox.cluster_standin import ClusterStandIn
from sandbox.control_plane import Options
from sandbox.errors import NotRunning, Unsupported
from tests.real.kubernetes import client_of

ALONE = Options(controller_manager=False, scheduler=False)


@pytest.mark.parametrize(
    "options",
    [
        Options(arguments={"kube-apiserver": ["--v=5"]}),
        Options(scheduler=False),
        Options(controller_manager=False),
    ],
)
def test_options_that_only_the_real_one_has_are_refused_before_anything_starts(
    tmp_path: Path, options: Options
) -> None:
    with pytest.raises(Unsupported, match="take the real control plane"):
        ClusterStandIn(tmp_path / "cluster", options)


def test_before_its_first_start_it_has_no_address(tmp_path: Path) -> None:
    plane = ClusterStandIn(tmp_path / "cluster", ALONE)

    for ask in (lambda: plane.url, lambda: plane.kubeconfig, lambda: plane.components):
        with pytest.raises(NotRunning):
            ask()
    plane.stop()
    plane.kill()


@pytest.mark.slow
def test_killed_and_started_again_it_is_empty_at_the_same_address_and_who_watched_lists_anew(
    tmp_path: Path,
) -> None:
    with ClusterStandIn(tmp_path / "cluster", ALONE) as plane:
        node = client_of(plane, kubeconfig=plane.kubeconfig_of("system:node:n1", ["system:nodes"]))
        node.create(paths.nodes(), {"metadata": {"name": "n1"}})
        since = node.list(paths.nodes()).resource_version
        seen: list[Difference] = []
        gone = threading.Event()

        def tell(difference: Difference) -> None:
            seen.append(difference)
            if difference.new is None:
                gone.set()

        informer = Informer(node, paths.nodes(), tell)
        thread = threading.Thread(target=informer.run)
        thread.start()
        assert informer.synced.wait(20)
        url = plane.url

        plane.kill()
        plane.start()

        assert plane.url == url
        assert gone.wait(30)
        informer.stop()
        thread.join()
        with pytest.raises(ApiNotFound):
            node.get(paths.nodes("n1"))
        with pytest.raises(ApiGone):
            list(node.watch(paths.nodes(), since=since))
        stranger = tmp_path / "stranger"
        stranger.write_text(plane.kubeconfig.read_text().replace(plane.admin_token, "another"))
        with pytest.raises(ApiForbidden, match="401"):
            Cluster(KubernetesSettings(kubeconfig=stranger), "stranger").get(paths.nodes())
