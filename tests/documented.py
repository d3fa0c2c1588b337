"""What the pages for people name: commands, settings, metrics, links, files, make targets. tests/test_docs.py asks whether each is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"^ {4}(relight .*)$", re.MULTILINE)
_INLINE: Final = re.compile(r"`([^`\n]+)`")
_PARTS: Final = re.compile(r"\s*(?:&&|\|\||[;|&])\s*")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"")
SAYINGS: Final = {"relight has nothing to say here"}
"""Sentences in backticks that begin with the name: what a program says, not what people type."""
_SHELL: Final = {"", "sh", "bash", "console"}


@dataclass(frozen=True, slots=True)
class Said:
    """A command line and where it stands."""

    page: str
    words: tuple[str, ...]
    whole: bool
    """It stands in a block to be typed: what must be given is given. In a sentence a command may be only named."""

    def __str__(self) -> str:
        """For the name of a test."""
        return f"{self.page}: {' '.join(self.words)}"


def name_of(page: Path) -> str:
    """As people know it."""
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """All of it."""
    return page.read_text(encoding="utf-8")


def command_lines(page: Path) -> Iterator[Said]:
    """Every `relight ...` of a page."""
    text = text_of(page)
    for _, language, block in _FENCE.findall(text):
        if language in _SHELL:
            yield from _typed(page, block.replace("\\\n", " "))
    yield from _typed(page, "\n".join(_INDENTED.findall(_FENCE.sub("", text))))
    for code in _INLINE.findall(_FENCE.sub("", text)):
        if code.startswith("relight ") and code not in SAYINGS:
            yield Said(name_of(page), tuple(_words(_outside_quotes(code)[0])), whole=False)


def _typed(page: Path, block: str) -> Iterator[Said]:
    for line in block.splitlines():
        for part in _outside_quotes(line.split(" #")[0]):
            if part.startswith("relight "):
                yield Said(name_of(page), tuple(_words(part)), whole=True)


def _outside_quotes(line: str) -> list[str]:
    """Commands of a line; what stands in quotes parts nothing."""
    held: list[str] = []

    def keep(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\0{len(held) - 1}\0"

    parts = _PARTS.split(re.sub(r"\"[^\"]*\"|'[^']*'", keep, line).strip())
    return [re.sub(r"\0(\d+)\0", lambda match: held[int(match[1])], part) for part in parts]


def _words(command: str) -> list[str]:
    """Words behind `relight`, without redirections."""
    found = shlex.split(command.replace("...", "WORDS"))[1:]
    ends = next((number for number, word in enumerate(found) if word in {">", ">>", "<"}), len(found))
    return found[:ends]


def settings_named(page: Path) -> set[str]:
    """RELIGHT_* as written; a trailing `__` or `*` means all that begin so."""
    return set(re.findall(r"RELIGHT_[A-Z0-9_]+", text_of(page)))


def metrics_named(page: Path) -> set[str]:
    """Metrics as written; a name that ends with an underscore means all that begin so."""
    return set(
        re.findall(
            r"`(relight_(?:router|recovery|stage|agent|watcher|actuators|audit)_[a-z_]*)", text_of(page)
        )
    )


def targets_named(page: Path) -> set[str]:
    """Targets of make."""
    text = text_of(page)
    blocks = "\n".join(block for _, language, block in _FENCE.findall(text) if language in _SHELL)
    typed = re.findall(r"^make ([a-z -]+?)(?:\s+#.*)?$", blocks, re.MULTILINE)
    inline = re.findall(r"`make ([a-z -]+)(?: [A-Z_]+=[^`]*)?`", _FENCE.sub("", text))
    return {target for found in (*typed, *inline) for target in found.split()}


def links(page: Path) -> Iterator[str]:
    """Where links and pictures of a page lead, inside the repository."""
    text = _FENCE.sub("", text_of(page))
    for target in (*_LINK.findall(text), *(one or other for one, other in _PICTURE.findall(text))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def files_named(page: Path) -> set[str]:
    """Files and folders of the repository in backticks: `rules/default/settings.yaml`, `tests/torture`."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {
        "build"
    }
    return {
        code.rstrip("/")
        for code in _INLINE.findall(_FENCE.sub("", text_of(page)))
        if re.fullmatch(r"[\w./-]+", code) and "/" in code and code.split("/")[0] in tops
    }


def tests_named(page: Path) -> set[str]:
    """Names of tests in backticks."""
    return set(re.findall(r"`(test_[a-z0-9_]+)`", text_of(page)))
