"""The cluster watcher: what the Kubernetes API shows of runs, pods and nodes, told as facts and signals."""
