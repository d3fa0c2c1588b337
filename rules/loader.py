"""Rulebook folders to one document whose every value knows its file, line and column.

A folder holds `*.yaml` (settings, rules and strategies in any of them, read in the order of their names) and
`tables/*.csv`. The first folder is the base, each further one is laid over it. What people wrote is refused rather
than guessed: see the codes in docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from rules.errors import Finding, Path, Place, RulebookError, suggest
from rules.marked import Marked, SourceFile, find, plain
from rules.model import FORMAT
from rules.overlay import Effective, Layer
from rules.reading import MAX_BYTES, read_yaml
from rules.shape import OPERATORS_OWN, OPERATORS_SENTENCE
from rules.tables import TableRow, read_table

DEFAULT: Final = FilePath(__file__).parent / "default"
"""Folder of the rulebook that ships with relight."""

_TOP: Final = frozenset({"format", "title", "settings", "rules", "strategies"})
_MAX_FILES: Final = 200
_YAML: Final = ".yaml"
_TABLE: Final = ".csv"


@dataclass
class Loaded:
    """A rulebook as it was read: plain content, and where each part of it stands."""

    content: dict[str, Any]
    findings: list[Finding]
    _marked: dict[str, Marked] = field(repr=False)
    rows: list[TableRow] = field(repr=False)

    def locate(self, finding: Finding) -> Finding:
        """The finding with its place in a file."""
        if finding.place is not None or not finding.path:
            return finding
        return finding.at(self._place(finding))

    def raw(self, path: Path) -> str | None:
        """How the value at a path is written."""
        if not path or path[0] not in self._marked:
            return None
        marked = find(self._marked[str(path[0])], path[1:])
        return None if isinstance(marked.value, dict | list) else marked.raw

    def _place(self, finding: Finding) -> Place | None:
        path = finding.path
        if path[0] == "codes" and len(path) > 1 and isinstance(path[1], int) and path[1] < len(self.rows):
            return self.rows[path[1]].place(str(path[2]) if len(path) > 2 else None)  # noqa: PLR2004 - codes, row, column
        if path[0] not in self._marked:
            return None
        marked = find(self._marked[str(path[0])], path[1:])
        if finding.offset is not None:
            return marked.inside(finding.offset, finding.length)
        if finding.code in {"RL101", "RL105"}:
            return marked.key_place()
        return marked.place()


def load(folders: Sequence[FilePath], *, names: Sequence[str] = ()) -> Loaded:
    """Read the folders and lay them over each other. `names` says how findings call them, the paths by default."""
    effective = Effective()
    findings: list[Finding] = []
    for position, folder in enumerate(folders):
        name = names[position] if position < len(names) else str(folder)
        layer, wrong = read_folder(folder, name, overlay=position > 0)
        findings += wrong + effective.lay(layer, overlay=position > 0)
    return _loaded(effective, findings)


def load_default() -> Loaded:
    """The rulebook that ships with relight."""
    return load([DEFAULT], names=["default"])


def read_folder(folder: FilePath, name: str, *, overlay: bool) -> tuple[Layer, list[Finding]]:
    """What one folder holds."""
    layer = Layer()
    files, findings = _files_of(folder, name)
    for path in files:
        shown = name if path == folder else f"{name}/{path.relative_to(folder).as_posix()}"
        try:
            findings += _take_file(layer, read_source(path, shown), overlay=overlay)
        except RulebookError as error:
            findings += error.findings
    return layer, findings


def _files_of(folder: FilePath, name: str) -> tuple[list[FilePath], list[Finding]]:
    """Files that are read, in order; one file alone counts as a folder that holds only it."""
    if folder.is_file() and folder.suffix in {_YAML, _TABLE}:
        return [folder], []
    if not folder.is_dir():
        message, right = (
            f"{name} is no folder",
            "name a folder with *.yaml and tables/*.csv, or one such file",
        )
        return [], [Finding("RL010", message, right, place=Place(name, 1, 1))]
    files = sorted(folder.glob(f"*{_YAML}")) + sorted(folder.glob(f"tables/*{_TABLE}"))
    findings = [_not_read(path, f"{name}/{path.name}") for path in sorted(folder.glob("*.yml"))]
    if len(files) > _MAX_FILES:
        message = f"{name} holds {len(files)} files"
        findings.append(Finding("RL004", message, f"at most {_MAX_FILES}", place=Place(name, 1, 1)))
        files = []
    return files, findings


def _take_file(layer: Layer, file: SourceFile, *, overlay: bool) -> list[Finding]:
    if not file.name.endswith(_TABLE):
        return _take_document(layer, read_yaml(file))
    rows, findings = read_table(file, overlay=overlay)
    layer.rows += rows
    return findings


def read_source(path: FilePath, name: str) -> SourceFile:
    """Text of a file; RulebookError when it is too large, unreadable or no UTF-8."""
    place = Place(name, 1, 1)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            message = f"the file has {size:,} bytes"
            raise RulebookError([Finding("RL004", message, f"at most {MAX_BYTES:,}; split it", place=place)])
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        raise RulebookError([Finding("RL001", message, place=place)]) from None
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is no UTF-8"
        raise RulebookError([Finding("RL001", message, "save the file as UTF-8", place=place)]) from None
    return SourceFile(name, text.replace("\r\n", "\n"))


def _not_read(path: FilePath, name: str) -> Finding:
    return Finding(
        "RL010", "files ending in .yml are not read", f"call it {path.stem}.yaml", place=Place(name, 1, 1)
    )


def _take_document(layer: Layer, root: Marked | None) -> list[Finding]:
    if root is None or root.value is None:
        return []
    if not isinstance(root.value, dict):
        message, right = "the file is no mapping", f"its keys are {', '.join(sorted(_TOP))}"
        return [Finding("RL103", message, right, place=root.place())]
    findings: list[Finding] = []
    for key, value in root.value.items():
        findings += _take_key(layer, key, value)
    return findings


def _take_key(layer: Layer, key: str, value: Marked) -> list[Finding]:
    match key:
        case "format":
            return _check_format(value)
        case "title":
            layer.title = value
            return []
        case "settings":
            return _take_settings(layer, value)
        case "rules" | "strategies":
            return _take_list(layer.rules if key == "rules" else layer.strategies, key, value)
    if key.lower() in OPERATORS_OWN:
        return [
            Finding("RL105", f"a rulebook cannot hold {key!r}", OPERATORS_SENTENCE, place=value.key_place())
        ]
    right = "code tables are CSV files in tables/" if key == "codes" else suggest(key, _TOP)
    return [Finding("RL101", f"a rulebook has no key {key!r}", right, place=value.key_place())]


def _check_format(value: Marked) -> list[Finding]:
    if value.value == FORMAT and not isinstance(value.value, bool):
        return []
    message = f"format {value.raw} is unknown to this release"
    return [Finding("RL103", message, f"write format: {FORMAT}", place=value.place())]


def _take_settings(layer: Layer, value: Marked) -> list[Finding]:
    if value.value is None:
        return []
    if not isinstance(value.value, dict):
        return [
            Finding("RL103", "settings are no mapping", "write name: value below it", place=value.place())
        ]
    findings = []
    for name, setting in value.value.items():
        first = layer.settings.setdefault(name, setting)
        if first is not setting:
            right = f"it stands in {first.key_place()} already"
            findings.append(
                Finding("RL104", f"setting {name!r} stands twice", right, place=setting.key_place())
            )
    return findings


def _take_list(entries: list[Marked], key: str, value: Marked) -> list[Finding]:
    if value.value is None:
        return []
    if not isinstance(value.value, list):
        return [Finding("RL103", f"{key} is no list", "begin each entry with -", place=value.place())]
    entries += value.value
    return []


def _loaded(effective: Effective, findings: list[Finding]) -> Loaded:
    nowhere = SourceFile("", "")
    marked: dict[str, Marked] = {
        "settings": Marked(dict(effective.settings), _file_of(effective.settings, nowhere), 0, 0),
        "rules": Marked(effective.rules, nowhere, 0, 0),
        "strategies": Marked(effective.strategies, nowhere, 0, 0),
    }
    if effective.title is not None:
        marked["title"] = effective.title
    rows = list(effective.rows.values())
    content = {"format": FORMAT, **{key: plain(value) for key, value in marked.items()}}
    content["codes"] = [row.content() for row in rows]
    return Loaded(content, findings, marked, rows)


def _file_of(settings: dict[str, Marked], nowhere: SourceFile) -> SourceFile:
    return next((setting.file for setting in settings.values()), nowhere)
