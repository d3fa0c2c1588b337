"""What writes to the cluster: one file a step, in a folder a resource. Actuators act on what they are told and decide nothing."""
