"""Errors of the sandbox.

SandboxError
├── PartMissing      a real part is not on this machine and was not fetched; the message says how to get it
├── StartFailed      a part ended while starting or did not come up in time; the message holds its log's end
├── NotRunning       a part was asked for something that only a running one can do
├── Unsupported      a manifest asks for something that our kubelet does not do; the message names it
└── NotEnoughDevices a node has fewer healthy, free devices than a pod asks for, though the scheduler thought otherwise
"""


class SandboxError(Exception):
    """Root of everything the sandbox raises."""


class PartMissing(SandboxError):  # noqa: N818 - says what happened; the root says that it is an error
    """A real part is not on this machine and could not be fetched."""


class StartFailed(SandboxError):  # noqa: N818 - as above
    """A part did not come up."""


class NotRunning(SandboxError):  # noqa: N818 - as above
    """A part is not running."""


class Unsupported(SandboxError):  # noqa: N818 - as above
    """A manifest asks for something that our kubelet does not do."""


class NotEnoughDevices(SandboxError):  # noqa: N818 - as above
    """A node has fewer healthy, free devices than a pod asks for."""
