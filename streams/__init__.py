"""Plumbing around `recovery.advance`: the router, which is stateless, and the recovery stage, which keeps the mailboxes' state.

Faust runs the worker, the agents, the group and the rebalancing, and is known to two files only (`faust_shell`, `faust_worker`). What is
promised - order, nothing lost, nothing applied twice - is kept by the files beside them, which know no engine and are tested without one.
"""
