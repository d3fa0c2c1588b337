"""The effective rulebook as YAML: one text for one rulebook, so that two can be compared line by line."""

from __future__ import annotations

from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from rules.model import RulebookDocument

_WIDTH: Final = 120


def as_yaml(document: RulebookDocument, *, codes: bool = False) -> str:
    """What stands after all overlays, in order, without what is left at its default; code rows only when asked for."""
    content: dict[str, Any] = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    rows = content.pop("codes", [])
    content = {"format": document.format, **content}
    if codes:
        content["codes"] = rows
    writer = YAML()
    writer.default_flow_style = False
    writer.width = _WIDTH
    writer.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    writer.dump(_styled(content), text)
    return text.getvalue()


def _styled(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Lists of words stand in one line, as authors write them."""
    if isinstance(value, dict):
        return {key: _styled(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    styled = CommentedSeq([_styled(each) for each in value])
    if not any(isinstance(each, dict | list) for each in value):
        styled.fa.set_flow_style()
    return styled
