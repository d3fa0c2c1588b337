"""What dcgm-exporter would show of the stage's chips: one page a node, read from the files of its simulated chips at each request.

One server for all nodes, as they share a machine: `http://127.0.0.1:PORT/NODE/metrics`. The series are those the node agent's mapping reads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from sandbox import ports
from sandbox.stage.simulated_chips import SimulatedChips

XID: Final = "DCGM_FI_DEV_XID_ERRORS"
SERIES: Final = {
    XID: ("gauge", "Value of the last XID error encountered."),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether remapping of rows has failed"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Total number of PCIe retries."),
}
MODEL: Final = "NVIDIA H100 80GB HBM3"


def page(node: str, chips: SimulatedChips, buses: Iterable[str]) -> str:
    """The exposition of a node: each series of each chip."""
    known = list(zip(chips.uuids, buses, strict=True))
    lines = []
    for series, (kind, told) in SERIES.items():
        lines += [f"# HELP {series} {told}", f"# TYPE {series} {kind}"]
        for index, (uuid, bus) in enumerate(known):
            labels = {
                "gpu": index, "UUID": uuid, "pci_bus_id": bus, "device": f"nvidia{index}", "modelName": MODEL, "Hostname": node,
            }  # fmt: skip
            text = ",".join(f'{name}="{value}"' for name, value in labels.items())
            lines.append(f"{series}{{{text}}} {chips.shown(uuid, series):g}")
    return "\n".join(lines) + "\n"


class Exporter:
    """The server. Nodes are added while it runs."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[SimulatedChips, tuple[str, ...]]] = {}
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_GET(self) -> None:
                """A node's page, or 404."""
                exporter.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""
                del format, args

        self._server = ThreadingHTTPServer((ports.LOOPBACK, 0), Handler)
        self._server.daemon_threads = True

    def start(self) -> None:
        """Serve, from a thread of its own."""
        threading.Thread(target=self._server.serve_forever, name="exporter", daemon=True).start()

    def stop(self) -> None:
        """End serving."""
        self._server.shutdown()
        self._server.server_close()

    def add(self, node: str, chips: SimulatedChips, buses: Iterable[str]) -> str:
        """Show a node's chips; returns the page's address."""
        self._nodes[node] = (chips, tuple(buses))
        return f"http://{ports.LOOPBACK}:{self._server.server_address[1]}/{node}/metrics"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        node = request.path.strip("/").removesuffix("/metrics")
        if node not in self._nodes:
            request.send_error(HTTPStatus.NOT_FOUND)
            return
        body = page(node, *self._nodes[node]).encode()
        with contextlib.suppress(ConnectionError):  # whoever asked did not wait
            request.send_response(HTTPStatus.OK)
            request.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
