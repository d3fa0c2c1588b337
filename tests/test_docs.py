"""What the pages for people name is there: every command line with its options, setting, metric, link, file, test and make target."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

from relight.cli import main
from relight.commands.config import PROCESSES, _kind
from relight.settings_shown import shown
from rules.check import check
from rules.loader import DEFAULT
from runtime.metrics import StreamMetrics
from tests import documented
from tests.documented import PAGES, ROOT, Said

SPOKEN: Final = [said for page in PAGES for said in documented.command_lines(page)]
each_page = pytest.mark.parametrize("page", PAGES, ids=documented.name_of)

ELSEWHERE: Final = {"RELIGHT_DATA", "RELIGHT_REQUIRE_REAL", "RELIGHT_DRY_RUN"}
"""Read by tests, CI and docker-compose.yml, not by a process."""
PRE_CHECKS: Final = (
    *(f"{disk}_PATH" for disk in ("ROOT", "SHM", "CACHE")),
    *(f"CHECK_{disk}_GIB" for disk in ("ROOT", "SHM", "CACHE")),
    *(f"CHECK_{limit}" for limit in ("MEMLOCK", "NOFILE", "STACK", "NPROC")),
)
"""Put together by supervisor/precheck.py from the names of its items."""
GONE: Final = {"RELIGHT_ACTING__MOST_ISOLATED", "RELIGHT_ACTING__FEWEST_LEFT"}
"""Named by docs/actuators.md as gone."""
NAMES_OF_GROUPS: Final = re.compile(r"relight_(?:router|recovery|stage|agent|watcher|actuators|audit)_$")


def test_there_is_something_to_look_at() -> None:
    assert len(PAGES) > 12
    assert len([said for said in SPOKEN if said.whole]) > 10
    assert len(SPOKEN) > 40


# ------------------------------------------------------------ commands


def wrong_with(said: Said) -> str | None:
    """What click would say of the words, nothing run; None when they are a command with options it has."""
    command: click.Command = main
    words = list(said.words)
    context = click.Context(main, info_name="relight")
    while True:
        context = command.context_class(command, info_name=command.name, parent=context)
        try:
            given, words, _ = command.make_parser(context).parse_args(args=words)
        except click.UsageError as error:
            return error.format_message()
        missing = [
            parameter.human_readable_name
            for parameter in command.params
            if parameter.required and not parameter.envvar and given.get(parameter.name or "") is None
        ]
        if missing and said.whole:
            return f"{', '.join(missing)} must be given"
        for parameter in command.params:
            if (wrong := wrong_value(parameter, given.get(parameter.name or ""))) is not None:
                return wrong
        if not isinstance(command, click.Group):
            return f"too many words: {words}" if words else None
        if not words:
            return None if command.invoke_without_command or not said.whole else "a command must be given"
        inner = command.get_command(context, words[0])
        if inner is None:
            return f"no such command: {words[0]}"
        command, words = inner, words[1:]


def wrong_value(parameter: click.Parameter, value: object) -> str | None:
    """A word that is none of the choices; PLACEHOLDERS say themselves what they are."""
    if not isinstance(parameter.type, click.Choice) or not isinstance(value, str) or value.isupper():
        return None
    choices = [str(one) for one in parameter.type.choices]
    return None if value in choices else f"{value!r} is none of {choices}"


@pytest.mark.parametrize("said", SPOKEN, ids=str)
def test_a_command_of_the_docs_exists_with_its_options(said: Said) -> None:
    assert wrong_with(said) is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("dance", "no such command"),
        ("incidents dance", "no such command"),
        ("incidents list --sideways", "No such option"),
        ("pause", "must be given"),
        ("config baker", "none of"),
        ("doctor and more", "too many words"),
        ("incidents", "a command must be given"),
    ],
)
def test_what_does_not_exist_is_seen(words: str, why: str) -> None:
    assert why in str(wrong_with(Said("here", tuple(words.split()), whole=True)))


def test_a_page_is_read_as_people_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Say `relight doctor`.\n\n```sh\nrelight router & relight recovery &   # both\n"
        'relight sql "SELECT 1; SELECT 2" > out\ncd x && relight jobs\n```\n\n    relight nodes --held\n'
    )
    monkeypatch.setattr(documented, "ROOT", tmp_path)

    assert [(said.words, said.whole) for said in documented.command_lines(page)] == [
        (("router",), True),
        (("recovery",), True),
        (("sql", "SELECT 1; SELECT 2"), True),
        (("jobs",), True),
        (("nodes", "--held"), True),
        (("doctor",), False),
    ]


def test_the_rule_of_the_quick_start_checks_clean(tmp_path: Path) -> None:
    page = documented.text_of(ROOT / "docs" / "quick_start.md")
    rule = re.search(r"<<'RULE'\n(.*?)^RULE$", page, re.MULTILINE | re.DOTALL)
    assert rule
    (tmp_path / "rules.yaml").write_text(rule[1], encoding="utf-8")

    assert check([DEFAULT, tmp_path]).findings == ()


# ------------------------------------------------------------ settings and metrics


@cache
def settings() -> frozenset[str]:
    """Every setting of every process, and what supervisors and training processes are given."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RELIGHT_CLUSTER", "RELIGHT_NODE__NAME", "RELIGHT_NODE__UID"):
            patch.setenv(name, "x")
        found = {setting.variable for process in PROCESSES for setting in shown(_kind(process)())}
    for folder in ("supervisor", "actuators/injection", "sandbox/training"):
        for file in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"RELIGHT_[A-Z0-9_]+", file.read_text(encoding="utf-8")))
    return frozenset(found | ELSEWHERE | {f"RELIGHT_{name}" for name in PRE_CHECKS})


@each_page
def test_every_setting_exists(page: Path) -> None:
    text = documented.text_of(page)
    unknown = {
        name for name in documented.settings_named(page) - settings() - GONE if not _is_a_group(name, text)
    }

    assert unknown == set()


def _is_a_group(name: str, text: str) -> bool:
    """`RELIGHT_KAFKA__*`, or `RELIGHT_ACTING__SILENT_NODE__...` above a table of what follows."""
    begins = any(one.startswith(name) for one in settings())
    return begins and all(
        match.group(1) in {"*", "."} for match in re.finditer(rf"{re.escape(name)}(?![A-Z0-9_])(.)", text)
    )


@cache
def metrics() -> frozenset[str]:
    """Every metric of every process, as Prometheus shows it."""
    found: set[str] = set()
    for stage in ("router", "recovery"):
        for family in StreamMetrics(stage).registry.collect():
            found |= {family.name, f"{family.name}_total"} if family.type == "counter" else {family.name}
    for file in ("actuators/metrics.py", "producers/agent_process.py", "producers/on_cluster.py",
                 "producers/cluster/watcher_process.py", "audit/process.py"):  # fmt: skip
        found |= set(_made_in(ROOT / file))
    return frozenset(found)


def _made_in(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    prefix = re.search(r'^PREFIX: Final = "(relight_\w+_)"', text, re.MULTILINE)
    assert prefix, f"{file} names no PREFIX"
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Name(id=kind),
                args=[ast.BinOp(left=ast.Name(id="PREFIX"), right=ast.Constant(value=str(name))), *_],
            ):
                found += (
                    [prefix[1] + name, f"{prefix[1]}{name}_total"]
                    if "Counter" in kind
                    else [prefix[1] + name]
                )
            case _:
                pass
    assert found, f"{file} makes no metric"
    return found


@each_page
def test_every_metric_exists(page: Path) -> None:
    unknown = {
        name
        for name in documented.metrics_named(page) - metrics()
        if not (NAMES_OF_GROUPS.match(name) and any(one.startswith(name) for one in metrics()))
    }

    assert unknown == set()


# ------------------------------------------------------------ places


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in documented.links(page):
        file, _, anchor = target.partition("#")
        there = page if not file else (page.parent / file).resolve()

        assert there.exists(), target
        if anchor:
            assert anchor in documented.anchors(there), target


@each_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    assert {name for name in documented.files_named(page) if not (ROOT / name).exists()} == {
        name for name in documented.files_named(page) if _is_within_tests(name)
    }


def _is_within_tests(name: str) -> bool:
    """docs/kubernetes.md names tests by their place within tests/."""
    return not (ROOT / name).exists() and (ROOT / "tests" / name).exists()


@cache
def known_tests() -> frozenset[str]:
    return frozenset(
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    )


@each_page
def test_every_test_that_is_named_exists(page: Path) -> None:
    assert documented.tests_named(page) - known_tests() == set()


@each_page
def test_every_make_target_exists(page: Path) -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert documented.targets_named(page) - made == set()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=documented.name_of)
def test_every_page_is_in_the_index(page: Path) -> None:
    index = ROOT / "docs" / "README.md"

    assert page == index or page.name in set(documented.links(index))


@each_page
def test_no_page_names_a_machine_s_own_folders_or_says_how_it_was_made(page: Path) -> None:
    assert re.findall(r"/work/|/tmp/b\b|\bissue \d\b", documented.text_of(page)) == []
