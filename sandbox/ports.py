"""Free loopback ports that stay free for a server which is stopped and started again."""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST = 10_000  # below are well-known ports of other services
LINUX_DEFAULT_EPHEMERAL_START = 32_768
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on which nobody listens now.

    They lie below the kernel's range for outgoing connections. A client that keeps trying to reach a stopped
    broker on a port *inside* that range can be given this very port as its own and connects to itself, after
    which the broker cannot come back. Two processes may be given the same port; the one that loses sees its
    server fail to bind and asks again.
    """
    dice = random.SystemRandom()
    chosen: list[int] = []
    while len(chosen) < count:
        port = dice.randrange(LOWEST, _ephemeral_start())
        if port not in chosen and is_free(port):
            chosen.append(port)
    return chosen


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def is_listened_on(port: int, *, patience_seconds: float = 1.0) -> bool:
    """Whether somebody accepts connections on this loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=patience_seconds):
            return True
    except OSError:
        return False


def _ephemeral_start() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return LINUX_DEFAULT_EPHEMERAL_START
    # A machine that gives nearly all ports to clients leaves no room below: then the default bound is as good
    # as any.
    return first if first > LOWEST + 1_000 else LINUX_DEFAULT_EPHEMERAL_START
