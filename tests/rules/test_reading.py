"""YAML files: read as another reader reads them, refused where YAML hides something, nothing else ever raised."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rules.errors import Finding, RulebookError
from rules.loader import DEFAULT
from rules.marked import Marked, SourceFile, find, plain
from rules.reading import read_yaml


def read(text: str) -> Marked:
    marked = read_yaml(SourceFile("site.yaml", text))
    assert marked is not None
    return marked


@pytest.mark.parametrize("path", sorted(DEFAULT.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_default_files_read_as_another_reader_reads_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert plain(read(text)) == YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("~", None),
        ("", None),
        ("0137", 137),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("'1.5'", "1.5"),
        ("1_000", "1_000"),
        ("2026-01-31", "2026-01-31"),
        ("12:30:00", "12:30:00"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert plain(read(f"key: {text}\n")) == {"key": value}


@pytest.mark.parametrize(
    "body",
    [
        "fault.known and run.haa",
        '"fault.known and run.haa"',
        "'fault.known and run.haa'",
        ">-\n    fault.known\n    and run.haa",
        "|\n    fault.known\n      and run.haa",
        "|-   # a note about run.haa\n    fault.known and run.haa",
        "fault.known\n    and run.haa",
        '"fault.level == \\"a\\" and run.haa"',
        "'fault.level == ''a'' and run.haa'",
        ">\n\n    fault.known\n\n    and run.haa\n",
    ],
)
def test_a_character_of_a_text_is_found_in_the_file_whatever_its_style(body: str) -> None:
    marked = find(read(f"rules:\n - when: {body}\n"), ("rules", 0, "when"))
    assert isinstance(marked.value, str)

    place = marked.inside(marked.value.rindex("haa"), 3)

    assert place.source[place.column - 1 :].startswith("haa")
    assert place.length == 3


_WORDS = st.text(alphabet="ab \"'\\:#\n", min_size=1, max_size=20)


@settings(max_examples=2 * settings().max_examples)
@given(text=_WORDS)
@example(text="''")
@example(text='\\"')
def test_every_character_of_a_double_quoted_text_is_found(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    marked = find(read(f'key: "{quoted}"\n'), ("key",))
    assert marked.value == text

    for offset, character in enumerate(text):
        place = marked.inside(offset, 1)
        if not character.isspace():
            assert place.source[place.column - 1] in {character, "\\"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\na: 2\n", "RL002"),
        ("a: {b: 1, b: 2}\n", "RL002"),
        ("a:\n\tb: 1\n", "RL003"),
        ("a: &x [1]\nb: *x\n", "RL006"),
        ("a: !!binary aGk=\n", "RL006"),
        ("a: " + "[" * 5_000 + "\n", "RL005"),
        ("a: " + "{b: " * 5_000 + "\n", "RL005"),
        ("[a, b]: 1\n", "RL001"),
        ("a: 1\n---\nb: 1\n", "RL001"),
        ("a: 'x\n", "RL001"),
        ("a: \x07\n", "RL001"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_yaml_hides_is_refused(text: str, code: str) -> None:
    with pytest.raises(RulebookError) as caught:
        read(text)

    assert {finding.code for finding in caught.value.findings} == {code}


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )

    with pytest.raises(RulebookError, match="RL006 an anchor"):
        read(bomb)


def findings_in(text: str) -> tuple[Finding, ...]:
    try:
        read_yaml(SourceFile("any.yaml", text))
    except RulebookError as error:
        return error.findings
    return ()


@settings(max_examples=3 * settings().max_examples)
@given(text=st.one_of(st.text(max_size=80), st.text(alphabet="ab:-[]{}\"'|>&*!#%@ \n\t,?", max_size=60)))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    assert all(finding.place is not None and finding.place.line >= 1 for finding in findings_in(text))
