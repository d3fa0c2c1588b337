"""Identities, and how derived ids are made.

Identity is never a name that can be used again: a node is its Node UID, a chip its serial or UUID where there is one, a process its
pod UID and start number (recovery 0). Derived ids hash what they stand for, so that a replay derives the same id (design 5).
"""

from __future__ import annotations

import hashlib
from typing import NewType

ClusterId = NewType("ClusterId", str)
RunId = NewType("RunId", str)
NodeUid = NewType("NodeUid", str)
ChipId = NewType("ChipId", str)
PodUid = NewType("PodUid", str)
EventId = NewType("EventId", str)
IncidentId = NewType("IncidentId", str)
CommandId = NewType("CommandId", str)
RulebookHash = NewType("RulebookHash", str)
Subject = NewType("Subject", str)
"""What has a mailbox: `run/<run id>`, `node/<node uid>`, `partition/<number>`; `domain/...` is a name for later."""

RUN = "run"
NODE = "node"
DOMAIN = "domain"
PARTITION = "partition"
_ID_LENGTH = 32
_SEPARATOR = b"\x1f"


def run_subject(run: str) -> Subject:
    """Subject of a job run."""
    return Subject(f"{RUN}/{run}")


def node_subject(node_uid: str) -> Subject:
    """Subject of a node."""
    return Subject(f"{NODE}/{node_uid}")


def partition_subject(partition: int) -> Subject:
    """Pseudo-subject to which what concerns a whole inbox partition is addressed (rulebook switch, gap)."""
    return Subject(f"{PARTITION}/{partition}")


def subject_kind(subject: str) -> str:
    """Kind part of a subject: `run`, `node`, `domain` or `partition`."""
    return subject.partition("/")[0]


def subject_name(subject: str) -> str:
    """Everything after the kind of a subject."""
    return subject.partition("/")[2]


def mailbox_key(cluster: str, subject: str) -> bytes:
    """Kafka key of a subject: the cluster is part of every key (design 6)."""
    return f"{cluster}/{subject}".encode()


def derive_id(*parts: str | int) -> str:
    """Hash of the parts, 32 hexadecimal digits; the same parts give the same id on every machine and release.

    Parts are separated by a control character, so `("a", "bc")` and `("ab", "c")` differ.
    """
    digest = hashlib.blake2b(digest_size=_ID_LENGTH // 2)
    for part in parts:
        digest.update(str(part).encode())
        digest.update(_SEPARATOR)
    return digest.hexdigest()
