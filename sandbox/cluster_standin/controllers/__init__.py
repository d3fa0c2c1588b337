"""What kube-controller-manager and kube-scheduler do, as far as relight's demo and tests need it, as ordinary clients of the API.

They know nothing of the server they talk to: on the real one they do what the real controllers do, which is how they are tested. Each file of a
controller is a decision, from objects to writes; `loop` carries writes out. What they cannot do they say: on the object, or as an Event.

    copies.py          the cluster as it is known, with what was written ourselves already in it
    loop.py            wakes controllers and carries out what they want
    jobs.py            Indexed and plain Jobs: job_sync, job_pods, job_failures, job_conditions
    scheduler.py       nodes for pods; fit.py says why one does not fit
    node_health.py     silent nodes, and taints by conditions
    taint_eviction.py  pods that do not tolerate their node's taints any more
    pod_collector.py   pods that nobody ends any more
    finished_jobs.py   Jobs whose time after their end is over
    namespaces.py      default service accounts, and what a deleted namespace leaves
"""

import threading
from datetime import timedelta

from runtime.kubernetes import Cluster
from sandbox.cluster_standin.controllers.finished_jobs import FinishedJobs
from sandbox.cluster_standin.controllers.jobs import Jobs
from sandbox.cluster_standin.controllers.loop import Controller, Loop
from sandbox.cluster_standin.controllers.namespaces import Namespaces, empty
from sandbox.cluster_standin.controllers.node_health import NodeHealth
from sandbox.cluster_standin.controllers.pod_collector import SWEEP, PodCollector
from sandbox.cluster_standin.controllers.scheduler import Scheduler
from sandbox.cluster_standin.controllers.taint_eviction import TaintEviction
from sandbox.control_plane import NodeLifecycle

__all__ = ["run"]


def run(
    cluster: Cluster,
    lifecycle: NodeLifecycle | None,
    stop: threading.Event,
    *,
    collect_every: timedelta = SWEEP,
) -> None:
    """Do the controllers' work until `stop` is set; blocks. A server that is away is waited for.

    Args:
        cluster: as somebody who may do everything, with a rate that bursts of writes do not exhaust.
        lifecycle: how nodes are judged; None: they are left as they are.
        stop: ends it soon.
        collect_every: how often pods are looked for that nobody ends any more.
    """
    controllers: list[Controller] = [
        Namespaces(),
        *([] if lifecycle is None else [NodeHealth(lifecycle)]),
        TaintEviction(),
        PodCollector(collect_every),
        Jobs(),
        FinishedJobs(),
        Scheduler(),
    ]
    Loop(cluster, controllers, empty=empty).run(stop)
