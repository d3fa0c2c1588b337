"""Frames on a TCP connection: a length, then so many bytes. An end of the line or a silence is `PeerLost`, never a short answer."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from sandbox.training.errors import PeerLost

_LENGTH = struct.Struct("<I")
LONGEST = 1 << 24  # bytes; a stranger on the port cannot make us allocate more


class Line:
    """One connection to one peer."""

    def __init__(self, connection: socket.socket, silence: float) -> None:
        """`silence`: seconds without a byte after which the peer counts as lost."""
        connection.settimeout(silence)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection

    def send(self, body: bytes) -> None:
        """One frame."""
        try:
            self.connection.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise PeerLost(f"sending failed: {error}") from error

    def receive(self) -> bytes:
        """One frame."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > LONGEST:
            raise PeerLost(f"a frame of {length} bytes is no frame of ours")
        return self._exactly(length)

    def say(self, message: dict[str, Any]) -> None:
        """One JSON object."""
        self.send(json.dumps(message).encode())

    def hear(self) -> dict[str, Any]:
        """One JSON object."""
        try:
            message = json.loads(self.receive())
        except ValueError as error:
            raise PeerLost(f"not a message of ours: {error}") from error
        if not isinstance(message, dict):
            raise PeerLost("not a message of ours")
        return message

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def _exactly(self, wanted: int) -> bytes:
        got = bytearray()
        while len(got) < wanted:
            try:
                piece = self.connection.recv(wanted - len(got))
            except OSError as error:
                raise PeerLost(f"receiving failed: {error}") from error
            if not piece:
                raise PeerLost("the peer ended the connection")
            got += piece
        return bytes(got)
