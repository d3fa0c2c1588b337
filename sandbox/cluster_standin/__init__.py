"""A small Kubernetes API in one process, with nothing but pip: what our own clients use of it, and 501 to the rest (design 10).

It follows the real control plane, never the other way round: every test that both can serve runs on both. What it lacks it names:
`refusals.not_served`. It keeps everything in memory, and limits nobody's rights.
"""

from sandbox.cluster_standin.plane import ClusterStandIn

__all__ = ["ClusterStandIn"]
