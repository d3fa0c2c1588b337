"""A small data-parallel training job as a team would write one: standard library only, built as one file, resumable, honest when it fails.

Ranks exchange gradients over TCP, save checkpoints to a shared folder and go on from the newest complete one. What a run computes does not
depend on how often it was interrupted, bit for bit; so a test can tell a recovery that lost or repeated work from one that did not.
"""
