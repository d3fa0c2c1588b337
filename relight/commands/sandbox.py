"""Try relight on one machine: the demo, a world to play with, faults to let into it, a Kafka broker of one's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from sandbox.demo.faults import Faults

MARK = ".relight-sandbox"
"""Says that a folder is the sandbox's to empty."""
TEND_EVERY = 0.3
"""Seconds between two looks for what is asked of a world that is kept running."""


@click.group()
def command() -> None:
    """Whole relight on one machine, for trying things. What is started ends with the command that started it.

    \b
    relight sandbox demo                  # three faults and what comes of them, in two minutes
    relight sandbox up /tmp/world         # the same world, until Ctrl-C
    relight sandbox fault chip node-2     # a fault in it, from another terminal
    """


@command.command()
@click.option(
    "--real",
    is_flag=True,
    help="Real Kafka and the real Kubernetes control plane (Java, built once by `make real`).",
)
@click.option("--plain", is_flag=True, help="One line a happening, also in a terminal.")
@click.option(
    "--act", "names", multiple=True, help="Play only this act (heals, third, exit); may be repeated."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where everything is kept; by default a new folder for temporary files.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a picture of the live view, when the job came back elsewhere, into this SVG file.",
)
def demo(
    *, real: bool, plain: bool, names: tuple[str, ...], folder: Path | None, record: Path | None
) -> None:
    """Play three faults of a training job and watch relight: one that heals, one too many on one chip, one that is nobody's.

    \b
    relight sandbox demo
    relight sandbox demo --act heals --plain

    Everything is real but the chips: processes, broker, cluster, store, each of relight's processes as in production. Ends with 0 only if every
    recovery came back with the right counters and the record in ClickHouse agrees with what was seen at the API and in the topics; with 1 if
    not, each disagreement a sentence; with 130 at Ctrl-C.
    """
    import tempfile

    from sandbox.demo.acts import ACTS
    from sandbox.demo.parts import choose
    from sandbox.demo.performance import Evening, perform
    from sandbox.demo.shows import choose_show

    known = {act.name: act for act in ACTS}
    if unknown := set(names) - set(known):
        raise click.UsageError(f"no act {', '.join(sorted(unknown))}; right would be {', '.join(known)}")
    if folder is not None:
        claim(folder)
    place = folder or Path(tempfile.mkdtemp(prefix="relight-demo-"))
    console = console_of_the_sandbox()
    acts = [known[name] for name in names] or ACTS
    log_into(place)
    with ended_by_ctrl_c(place):
        show = choose_show(console, plain=plain, record=record)
        raise SystemExit(perform(Evening(choose(real=real), place, acts), show, console))


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--real",
    is_flag=True,
    help="Real Kafka and the real Kubernetes control plane (Java, built once by `make real`).",
)
def up(folder: Path, *, real: bool) -> None:
    """Keep a world running until Ctrl-C: broker, cluster of four nodes, store, all of relight, one training job.

    FOLDER is made, or was used for this before; what an earlier world left in it is removed. Once it runs, every other command works against it:

    \b
    . FOLDER/env                                  # in another terminal
    relight sandbox fault chip node-2 --code 46
    relight incidents list
    relight jobs
    relight topics tail decisions.v1
    relight report

    With --real kubectl works against it too; the stand-in of the control plane speaks plain HTTP, over which kubectl sends no token.

    Its rulebook is the default one with layers of its own: who releases another names them first (sandbox/stage/quick, sandbox/demo/rulebook).
    """
    from sandbox.demo.lines import Lines
    from sandbox.demo.parts import choose
    from sandbox.demo.watching import Watching
    from sandbox.demo.world import World
    from sandbox.errors import SandboxError

    claim(folder)
    empty(folder)
    console = console_of_the_sandbox()
    place = folder.resolve()
    log_into(place)
    try:
        with ended_by_ctrl_c(place), World(place, choose(real=real)(place), click.echo) as world:
            click.echo(f"runs; in another terminal: . {world.env_file}\nCtrl-C ends it")
            with Watching(world, Lines(console).tell):
                while True:
                    world.tend()
                    signal.sigtimedwait([], TEND_EVERY)
    except SandboxError as error:
        raise click.ClickException(f"{error}\nwhat was written lies in {place}") from error


@command.group()
@click.option(
    "--world",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RELIGHT_SANDBOX",
    help="Folder of `relight sandbox up`; set by sourcing the `env` file there.",
)
@click.pass_context
def fault(context: click.Context, world: Path | None) -> None:
    """Let a fault into a world that `relight sandbox up` keeps running, by the door real ones come by.

    \b
    relight sandbox fault chip node-2                         # a kernel-log line; a reset of the chip heals it
    relight sandbox fault chip node-2                         # a second time; the third isolates the node
    relight sandbox fault chip node-3 --code 79               # fell off the bus: isolated at once
    relight sandbox fault scrape node-0 --value 62            # an exporter shows an Xid
    relight sandbox fault exit 1                              # rank 1 ends with code 1
    relight sandbox fault exit 1 --signal KILL                # rank 1 is killed
    relight sandbox fault node node-1                         # kubelet and agent say nothing more
    relight sandbox fault node node-1 --back

    What comes of it: `relight incidents list`, or the terminal of `relight sandbox up`.
    """
    context.obj = world


@fault.command()
@click.argument("node")
@click.option(
    "--code", type=click.IntRange(1, 999), default=46, show_default=True, help="Xid, as in the code table."
)
@click.option("--chip", "index", type=int, default=0, show_default=True, help="Which chip of the node.")
@click.pass_obj
def chip(world: Path | None, node: str, *, code: int, index: int) -> None:
    """Write an Xid of a chip into the kernel log of NODE, as the driver does.

    46 and 62 are healed by a reset, in place; the third equal one of a chip in a day isolates its node. 79 isolates at once; 13 is recorded.
    The same code on two chips of one job within 30 s looks like software and is not counted against a chip.
    """
    with refusals():
        click.echo(faults_of(world).chip(node, index, code))


@fault.command()
@click.argument("node")
@click.option(
    "--series", default="DCGM_FI_DEV_XID_ERRORS", show_default=True, help="Series of dcgm-exporter."
)
@click.option("--value", type=float, required=True, help="What it shows from now on.")
@click.option("--chip", "index", type=int, default=0, show_default=True, help="Which chip of the node.")
@click.pass_obj
def scrape(world: Path | None, node: str, *, series: str, value: float, index: int) -> None:
    """Let the exporter of NODE show a value, which its agent scrapes every second.

    An exporter shows the last Xid for ever: the same one again is not seen. Where the agent reads the kernel log (node-2, node-3) that series is
    left to it. DCGM_FI_DEV_ROW_REMAP_FAILURE at 1 isolates the node.
    """
    with refusals():
        click.echo(faults_of(world).scrape(node, index, series, value))


@fault.command("exit")
@click.argument("rank", type=int)
@click.option(
    "--code", type=click.IntRange(1, 255), default=1, show_default=True, help="Exit code, at its next step."
)
@click.option("--signal", "name", help="Send this signal instead: KILL, ABRT, SEGV, USR1, ...")
@click.pass_obj
def exit_command(world: Path | None, rank: int, *, code: int, name: str | None) -> None:
    """End the training process of RANK by itself: with a code, or by a signal from outside its pod."""
    number = None if name is None else signal_of(name)
    with refusals():
        faults = faults_of(world)
        click.echo(faults.exit(rank, code) if number is None else faults.kill(rank, number))


@fault.command("node")
@click.argument("node")
@click.option("--back", is_flag=True, help="Let them speak again.")
@click.pass_obj
def node_command(world: Path | None, node: str, *, back: bool) -> None:
    """Silence kubelet and agent of NODE; its processes go on, and nobody hears of them.

    It is NotReady after some 20 s, isolated after 5 more, and presumed gone; then the job goes on elsewhere.
    """
    with refusals():
        click.echo(faults_of(world).node(node, back=back))


def faults_of(world: Path | None) -> Faults:
    """The doors of a world that runs. Asked for by each fault, not by their group: their --help needs no world."""
    from sandbox.demo.faults import Faults
    from sandbox.errors import SandboxError

    if world is None:
        raise click.UsageError(
            "no world is named; right would be to source the file `env` in the folder of `relight sandbox up` "
            "(. FOLDER/env), or --world FOLDER"
        )
    faults = Faults.of(world)
    if not is_running(world):
        raise SandboxError(
            f"no world runs in {world}: it has ended; right would be to start it again: relight sandbox up {world}"
        )
    return faults


def is_running(folder: Path) -> bool:
    """Whether a sandbox of another process holds the folder (see `claim`)."""
    import fcntl

    try:
        with (folder / MARK).open("rb") as mark:
            fcntl.lockf(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):
        return True
    return False


def log_into(folder: Path) -> None:
    """What parts that live in this process (kubelets, watches) say goes into a file, not between the lines people read."""
    from runtime import logs

    logs.configure("INFO", stream=(folder / "sandbox.log").open("a", encoding="utf-8"))


def console_of_the_sandbox() -> Console:
    """As wide as the terminal; without one, wide enough for a table."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


def signal_of(name: str) -> signal.Signals:
    """By its name, with or without SIG."""
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError as error:
        raise click.UsageError(
            f"no signal {name!r}; right would be such as KILL, ABRT, SEGV, TERM, USR1"
        ) from error


@contextmanager
def refusals() -> Iterator[None]:
    """What the sandbox refuses, as a message people can read."""
    from sandbox.errors import SandboxError

    try:
        yield
    except SandboxError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def ended_by_ctrl_c(folder: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM end everything in good order and name the folder; the code is 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt as error:
        click.echo(f"ended; nothing is left running, what was written lies in {folder}", err=True)
        raise SystemExit(130) from error


def empty(folder: Path) -> None:
    """Remove what an earlier world left in a folder that is ours."""
    import shutil

    for left in folder.iterdir():
        if left.name != MARK:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--env-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the settings here once it serves.",
)
def kafka(folder: Path, env_file: Path | None) -> None:
    """Run one real Kafka broker on a free loopback port until Ctrl-C.

    FOLDER is made, or was used for this before; what an earlier broker left in it is removed. A folder with anything else in it is refused.
    """
    from sandbox import kafka_jars
    from sandbox.kafka_server import KafkaBroker

    claim(folder)
    kafka_jars.fetch()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with KafkaBroker(folder) as broker:
            lines = settings_of(broker.bootstrap)
            click.echo(lines)
            if env_file is not None:
                env_file.write_text(lines + "\n", encoding="utf-8")
            click.echo("serving; Ctrl-C ends it", err=True)
            signal.pause()
    except KeyboardInterrupt:
        click.echo("ended", err=True)


def claim(folder: Path) -> None:
    """Make the folder ours until this process ends, unless it holds what others put there, or a sandbox runs in it: a start removes data."""
    import fcntl
    import os

    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / MARK
    if not mark.exists() and any(folder.iterdir()):
        raise click.UsageError(
            f"{folder} is not empty and no sandbox was in it before; right would be a folder that does not exist yet"
        )
    held = os.open(
        mark, os.O_RDWR | os.O_CREAT
    )  # never closed: the lock goes with the process, however that ends
    try:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        os.close(held)
        raise click.UsageError(
            f"a sandbox runs in {folder}; right would be another folder, or to end that one first"
        ) from error


def settings_of(bootstrap: str) -> str:
    """Settings for a single broker, as lines a shell can source."""
    return "\n".join(
        f"export {name}={value}"
        for name, value in {
            "RELIGHT_CLUSTER": "try",
            "RELIGHT_KAFKA__BOOTSTRAP": bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PARTITIONS": "4",
        }.items()
    )
