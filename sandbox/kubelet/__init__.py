"""A kubelet of ours, for the real API server and for stand-ins alike: pods run as local processes (design 10).

    kubelet.py       the node as a whole, and what it can suffer: the door of this package
    node.py          the Node object, Lease and status
    pod.py           one pod from binding to deletion; pod_status.py what is reported of it
    container.py     one container over all its runs; process.py one run of it; enclosure.py what becomes the container, where root may
    plain.py         what stands over a container where not; real_paths.py what is done in place of mounts
    volumes.py, environment.py, fields.py, devices.py    what a manifest may ask for
    host.py          what a pod finds on its node; identity.py whose a process is

Images are ignored: a container sees the machine's own programs, and must name its command. Not done: probes, lifecycle hooks, exec and
log endpoints, limits of memory and CPU, volumes of storage systems, a network of its own (pods have loopback addresses of their own).
"""

from sandbox.kubelet.container import Backoff
from sandbox.kubelet.host import Timing
from sandbox.kubelet.identity import PodIdentity, pod_of
from sandbox.kubelet.kubelet import Kubelet
from sandbox.kubelet.node import NodeOptions
from sandbox.kubelet.process import Way

__all__ = ["Backoff", "Kubelet", "NodeOptions", "PodIdentity", "Timing", "Way", "pod_of"]
