"""Steps whose effect is on the workload object, and how a run is found in the cluster."""
