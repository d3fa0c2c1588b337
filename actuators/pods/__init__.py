"""Steps whose effect is on pods: desired state of their processes."""
