"""What enters other people's images: old syntax, nothing but the standard library, the same bytes from the same sources."""

import ast
import sys
import zipfile
from pathlib import Path

import pytest

from supervisor.build import build


def sources(zipapp: Path) -> dict[str, str]:
    with zipfile.ZipFile(zipapp) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_every_line_is_python_3_8(zipapp: Path) -> None:
    for name, text in sources(zipapp).items():
        ast.parse(text, name, feature_version=(3, 8))


def test_the_check_of_the_syntax_sees_newer_syntax() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass\n", feature_version=(3, 8))


def test_no_annotation_of_newer_python_is_evaluated(zipapp: Path) -> None:
    for name, text in sources(zipapp).items():
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        if any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(text))):
            assert "__future__" in {node.module for node in imports}, f"{name} would evaluate its annotations"


def test_it_imports_the_standard_library_and_itself(zipapp: Path) -> None:
    for name, text in sources(zipapp).items():
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                assert module.split(".")[0] in sys.stdlib_module_names | {"supervisor"}, f"{name}: {module}"


def test_the_same_sources_give_the_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    build(tmp_path / "again.pyz")

    assert (tmp_path / "again.pyz").read_bytes() == zipapp.read_bytes()
    assert not (tmp_path / "again.pyz.new").exists()
