"""Folders: which files are read, in which order they are laid over each other, what an override does."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.check import Report, check
from rules.compiled import default_rulebook
from rules.loader import DEFAULT
from rules.model import Rule, RulebookDocument

NEW = """\
rules:
  - id: {name}
    title: A rule of this site
    on: [chip_fault]
    when: fault.code == "{code}"
    then: [record]
    reason: an example
    {more}
"""


def site(folder: Path, text: str, name: str = "site.yaml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def over_default(*folders: Path) -> Report:
    return check([DEFAULT, *folders], names=["default", *(folder.name for folder in folders)])


def rules_of(*folders: Path) -> list[str]:
    return [rule.id for rule in document(*folders).rules]


def document(*folders: Path) -> RulebookDocument:
    report = over_default(*folders)
    assert report.document is not None, report.findings
    return report.document


def rule_of(name: str, *folders: Path) -> Rule:
    return next(rule for rule in document(*folders).rules if rule.id == name)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def new(name: str, more: str = "", code: str = "79") -> str:
    return NEW.format(name=name, more=more, code=code)


def test_a_new_rule_stands_before_row_12_of_its_subject(tmp_path: Path) -> None:
    text = (
        new("site-rule")
        .replace("on: [chip_fault]", "on: [node_fault]")
        .replace('fault.code == "79"', "run.supported")
    )
    order = rules_of(site(tmp_path / "site", text))

    assert order.index("site-rule") == order.index("unknown-code") - 1


def test_a_new_rule_of_a_node_stands_before_row_12_of_nodes(tmp_path: Path) -> None:
    text = new("site-rule", "subject: node").replace('fault.code == "79"', "node.protected")
    report = over_default(site(tmp_path / "site", text))

    assert codes(report) == ["RL320"], "node-record and node-hold before it take every class"


def test_before_and_after_say_where_and_keep_the_order_they_are_written_in(tmp_path: Path) -> None:
    places = {
        "one": ("after: ha-off", "79"),
        "two": ("after: ha-off", "48"),
        "three": ("before: merge", "31"),
    }
    places["four"] = ("before: merge", "43")
    entries = [new(name, more, code).removeprefix("rules:\n") for name, (more, code) in places.items()]

    order = rules_of(site(tmp_path / "site", "rules:\n" + "".join(entries)))

    assert order[:6] == ["ha-off", "one", "two", "three", "four", "merge"]


def test_merge_replaces_the_keys_it_gives_and_keeps_the_place(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", "rules:\n  - id: hang\n    override: merge\n    notify: true\n")
    before = rule_of("hang")

    after = rule_of("hang", folder)

    assert after == before.model_copy(update={"notify": True})
    assert rules_of(folder) == rules_of()


def test_replace_keeps_nothing_but_the_place(tmp_path: Path) -> None:
    text = (
        "rules:\n  - id: hang\n    override: replace\n    title: Another\n    on: [hang]\n"
        "    then: [record]\n    reason: another\n"
    )
    folder = site(tmp_path / "site", text)

    after = rule_of("hang", folder)

    assert (after.title, after.then, after.row) == ("Another", ("record",), "")
    assert rules_of(folder) == rules_of()


def test_an_override_can_move_a_rule(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", "rules:\n  - id: merge\n    override: merge\n    before: ha-off\n")

    assert rules_of(folder)[:2] == ["merge", "ha-off"]


def test_an_override_that_moves_to_nowhere_leaves_the_rule_where_it_was(tmp_path: Path) -> None:
    report = over_default(
        site(tmp_path / "site", "rules:\n  - id: merge\n    override: merge\n    before: nowhere\n")
    )

    assert codes(report) == ["RL113"]


def test_remove_takes_a_rule_away(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", "rules:\n  - id: hang-no-progress\n    override: remove\n")

    assert "hang-no-progress" not in rules_of(folder)


def test_a_second_folder_overrides_what_the_first_brought(tmp_path: Path) -> None:
    first = site(tmp_path / "first", new("site-rule", "before: merge"))
    second = site(tmp_path / "second", "rules:\n  - id: site-rule\n    override: remove\n")

    assert "site-rule" in rules_of(first)
    assert rules_of(first, second) == rules_of()
    assert codes(over_default(second, first))[:1] == ["RL110"], "the order of folders counts"


def test_settings_are_merged_by_key_nested_ones_too(tmp_path: Path) -> None:
    text = "settings:\n  hang_in_a_row: 5\n  software_filter: {chips: 0}\n"

    settings = document(site(tmp_path / "site", text)).settings

    before = default_rulebook().settings
    assert settings.hang_in_a_row == 5
    assert settings.software_filter == before.software_filter.model_copy(update={"chips": 0})
    assert settings.stabilising == before.stabilising


def test_a_strategy_can_be_switched_on(tmp_path: Path) -> None:
    text = "strategies:\n  - id: pod_reschedule\n    override: merge\n    enabled: true\n    disabled_because: ''\n"

    strategies = {strategy.id: strategy for strategy in document(site(tmp_path / "site", text)).strategies}

    assert strategies["pod_reschedule"].enabled
    assert list(strategies) == list(default_rulebook().strategies)


def table(rows: str) -> str:
    header = (DEFAULT / "tables" / "nvidia_xid.csv").read_text(encoding="utf-8").partition("\n")[0]
    return f"{header},why,expires\n{rows}"


def test_a_row_of_a_site_replaces_the_row_as_a_whole(tmp_path: Path) -> None:
    row = "79,xid,fell off,record,,hardware,none,chip,,,,,none,,no,site,1,boards of lot 7,2026-12-31\n"
    (tmp_path / "site" / "tables").mkdir(parents=True)
    site(tmp_path / "site" / "tables", table(row), "lot7.csv")

    report = over_default(tmp_path / "site")

    assert report.compiled is not None, report.findings
    found = report.compiled.row("xid", "79")
    assert found is not None
    assert (found.class_, found.notify, found.product) == ("record", False, "")
    assert default_rulebook().row("xid", "79") != found


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", new("second", "after: ha-off", "48"), "20-more.yaml")
    site(folder, new("first", "after: ha-off"), "10-some.yaml")

    assert rules_of(folder)[1:3] == ["first", "second"]


def test_a_comment_alone_or_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", "# nothing yet\n")
    site(folder, "", "empty.yaml")
    site(folder, "rules:\nsettings:\n", "keys.yaml")

    assert document(folder) == document()


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("site.yml", b"settings: {}\n", "RL010"),
        ("site.yaml", b"title: \xff\xfe\n", "RL001"),
        ("site.yaml", b"#" * (1024 * 1024 + 1), "RL004"),
        ("site.yaml", b"- 1\n", "RL103"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)

    assert codes(over_default(tmp_path)) == [code]


def test_too_many_files_are_told_and_not_read(tmp_path: Path) -> None:
    for number in range(201):
        site(tmp_path / "site", "settings: [", f"{number}.yaml")

    assert codes(over_default(tmp_path / "site")) == ["RL004"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert codes(over_default(tmp_path / "nowhere")) == ["RL010"]


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_bytes(b"\xef\xbb\xbfsettings:\r\n  hang_in_a_row: 5\r\n")

    assert document(tmp_path).settings.hang_in_a_row == 5


def test_a_base_of_ones_own_needs_everything(tmp_path: Path) -> None:
    report = check([site(tmp_path / "own", "rules: []\n")])

    assert "RL102" in codes(report)
    assert report.document is None


def test_all_faults_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    text = new("a", "mode: shadows") + new("b", "notfy: true").removeprefix("rules:\n")
    text += new("c").removeprefix("rules:\n").replace("fault.code", "fault.kode")
    folder = site(tmp_path / "site", text)

    report = over_default(folder)

    assert codes(report) == ["RL103", "RL101", "RL206"]
    assert [finding.place.line for finding in report.findings if finding.place] == [8, 15, 19]


def test_a_rulebook_too_large_for_a_message_is_told(tmp_path: Path) -> None:
    header = table("")
    rows = [
        f"C{number:05d},site,{'x' * 300},record,,unknown,none,chip,,,,,none,,no,site,1,why,\n"
        for number in range(1_500)
    ]
    (tmp_path / "tables").mkdir()
    site(tmp_path / "tables", header + "".join(rows), "many.csv")

    assert codes(over_default(tmp_path)) == ["RL336"]


_KEYS = [
    *(
        "id",
        "override",
        "before",
        "after",
        "title",
        "on",
        "when",
        "count",
        "then",
        "otherwise",
        "isolate",
        "mode",
        "reason",
    ),
    *(
        "steps",
        "covers",
        "effects",
        "merge_before",
        "stop_processes",
        "timeout",
        "on_failure",
        "arguments",
        "chips",
        "by",
    ),
]
_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 100), st.floats(allow_nan=False), st.text(max_size=8)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)
    ),
    max_leaves=10,
)
_ENTRY = st.fixed_dictionaries(
    {"id": st.sampled_from(["hang", "merge", "new", "hang_restart"])},
    optional={key: _JSON for key in _KEYS if key not in {"id", "override"}}
    | {"override": st.sampled_from(["merge", "replace", "remove"])},
)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    rules=st.lists(st.one_of(_ENTRY, _JSON), max_size=3),
    strategies=st.lists(st.one_of(_ENTRY, _JSON), max_size=2),
    changed=st.dictionaries(
        st.sampled_from(["hang_in_a_row", "software_filter", "barrier", "other"]), _JSON, max_size=2
    ),
)
def test_whatever_is_written_is_told_and_never_raises(
    rules: list[object], strategies: list[object], changed: object
) -> None:
    text = json.dumps({"rules": rules, "strategies": strategies, "settings": changed})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "site.yaml"
        path.write_text(text, encoding="utf-8")

        report = check([DEFAULT, path])

    assert (report.document is None) == bool(report.errors)
    assert all(finding.place is not None for finding in report.findings)
