"""A whole relight on real parts on one machine: each of its processes as in production, a cluster with kubelets of ours, a training job.

For end-to-end tests and demos: what they do to it goes through the doors real faults come by (a kernel-log line, a signal to a process, an API
server that does not answer), and what they ask it is what the world shows (API objects, topics, files of the job).
"""
