"""Run kubelets in a process of their own until SIGTERM or Ctrl-C: ``python -m sandbox.kubelet --kubeconfig F --name node-0 --name node-1``."""

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from runtime import logs
from runtime.errors import ProcessError
from sandbox.errors import SandboxError
from sandbox.kubelet import Kubelet, NodeOptions, Timing, Way
from sandbox.kubelet.process import best_way, missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the kubelets, say so on standard output, and wait."""
    options = _parser().parse_args(arguments)
    logs.configure("INFO")
    way = options.way or best_way()
    lacking = missing() if way is Way.ENCLOSED else None
    if lacking is not None:
        sys.stderr.write(f"{lacking}\n")
        return 1
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    folder = options.folder or Path(tempfile.mkdtemp(prefix="relight-kubelet-"))
    timing = Timing(heartbeat=timedelta(seconds=options.heartbeat))
    try:
        with ExitStack() as running:
            for name in options.name:
                node = NodeOptions(name, labels=dict(options.label), devices=dict(options.device))
                running.enter_context(Kubelet(options.kubeconfig, node, folder / name, timing, way=way))
                sys.stdout.write(f"node {name}: {folder / name} ({way} containers)\n")
                sys.stdout.flush()
            over.wait()
    except (ProcessError, SandboxError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox.kubelet", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="as whom it talks to the API server")
    parser.add_argument("--name", action="append", required=True, help="a node's name; may be repeated")
    parser.add_argument("--folder", type=Path, help="volumes and logs, a folder a node; default: a new one")
    parser.add_argument("--label", type=_pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--device",
        type=_count,
        action="append",
        default=[],
        metavar="RESOURCE=COUNT",
        help="nvidia.com/gpu=8",
    )
    parser.add_argument(
        "--way",
        type=Way,
        choices=list(Way),
        help="of running containers; default: enclosed where it can be done",
    )
    parser.add_argument("--heartbeat", type=float, default=10.0, metavar="SECONDS")
    return parser


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _count(text: str) -> tuple[str, int]:
    key, value = _pair(text)
    return key, int(value)


if __name__ == "__main__":
    sys.exit(main())
