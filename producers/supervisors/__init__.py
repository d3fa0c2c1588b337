"""The agent's side of the line to the supervisors in pods: who speaks, what may be said, how it becomes signals."""
