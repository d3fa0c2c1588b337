"""Findings about the shape of a document: what pydantic says of the models, in words a rule's author can act on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rules.errors import Finding, Path, format_path, suggest
from rules.model import RulebookDocument

Raw = Callable[[Path], str | None]
"""How the value at a path is written in its file; None when there is no file."""

OPERATORS_OWN: Final = frozenset(
    {
        "guard",
        "guards",
        "image",
        "images",
        "command",
        "commands",
        "script",
        "scripts",
        "exec",
        "shell",
        "args",
    }
)
"""Keys that would say what runs or what holds relight back."""

OPERATORS_SENTENCE: Final = (
    "guards, images and commands are the operator's settings, never a rulebook's; "
    "a rule names a strategy or a verb"
)
APPROVE_SENTENCE: Final = (
    "asking a person before acting comes with a later release; write off, shadow or enforce"
)

_SHOWN: Final = 60
_YAML_WORDS: Final = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def findings_of(
    error: ValidationError, raw: Raw, *, root: type[BaseModel] = RulebookDocument, above: Path = ()
) -> list[Finding]:
    """A finding for each thing pydantic refuses. `above` leads from the document to the model that was validated."""
    return [_Detail(detail, raw, root, above).finding() for detail in error.errors(include_url=False)]


def no_raw(path: Path) -> str | None:
    """There is no file: values are known as values only."""
    del path
    return None


def known_keys(model: type[BaseModel]) -> set[str]:
    """Keys an author can write."""
    return {field.alias or name for name, field in model.model_fields.items()}


class _Detail:
    """One of pydantic's errors."""

    def __init__(self, detail: ErrorDetails, raw: Raw, root: type[BaseModel], above: Path) -> None:
        self.kind = detail["type"]
        self.message = detail["msg"]
        self.input = detail["input"]
        self.context: Mapping[str, Any] = detail.get("ctx", {})
        self.loc = tuple(part for part in detail["loc"] if part != "[key]")
        self.path = above + self.loc
        self._raw = raw
        self._root = root

    def finding(self) -> Finding:  # noqa: PLR0911 - one kind of error a line
        """What it means for the author."""
        match self.kind:
            case "extra_forbidden":
                return self._unknown_key()
            case "missing":
                return self._missing()
            case "enum" | "literal_error":
                return self._not_one_of()
            case "string_type":
                return self._no_text()
            case "bool_type" | "bool_parsing":
                return self._no_flag()
            case "int_type" | "int_parsing" | "float_type" | "float_parsing" | "int_from_float":
                return self._found(f"{self._shown()} is no number", "write a number without quotes")
            case "string_pattern_mismatch":
                return self._found(
                    f"{self._shown()} is no id",
                    "write small letters, digits, - and _, a letter first, at most 63",
                )
            case _:
                return self._wrong_value()

    def _wrong_value(self) -> Finding:
        match self.kind:
            case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
                return self._out_of_range()
            case "too_short":
                return self._found("the list is empty", "name at least one")
            case "tuple_type" | "list_type":
                return self._found(f"{self._shown()} is no list", f"write [{self._shown(quoted=False)}]")
            case "model_type" | "model_attributes_type" | "dict_type":
                return self._found(f"{self._shown()} is no mapping", "write key: value pairs")
            case "value_error":
                message, _, right = str(self.context.get("error", self.message)).partition("; ")
                return self._found(message, right)
            case _:
                return self._found(f"{self._shown()}: {self.message}", "")

    def _found(self, message: str, right: str, code: str = "RL103", path: Path | None = None) -> Finding:
        return Finding(code, message, right, self.path if path is None else path)

    def _unknown_key(self) -> Finding:
        key = str(self.loc[-1])
        if key.lower() in OPERATORS_OWN:
            return self._found(f"a rulebook cannot hold {key!r}", OPERATORS_SENTENCE, "RL105")
        model = model_at(self._root, self.loc[:-1])
        known = known_keys(model) if model is not None else set()
        where = format_path(self.path[:-1]) or "the rulebook"
        return self._found(f"{where} has no key {key!r}", suggest(key, known), "RL101")

    def _missing(self) -> Finding:
        key = str(self.loc[-1])
        where = format_path(self.path[:-1]) or "the rulebook"
        return self._found(f"{where} lacks the key {key!r}", f"add {key}:", "RL102", self.path[:-1])

    def _not_one_of(self) -> Finding:
        words = re.findall(r"'([^']*)'", str(self.context.get("expected", "")))
        if self.loc and self.loc[-1] == "mode" and self.input == "approve":
            return self._found("'approve' is no mode yet", APPROVE_SENTENCE, "RL106")
        if isinstance(self.input, bool):
            raw = self._raw(self.path) or str(self.input).lower()
            near = "off" if "off" in words and not self.input else suggest(raw, words)
            right = f'write "{near}" in quotes' if near == "off" else near
            return self._found(f"{raw} is true or false where a word is meant", right, "RL007")
        return self._found(
            f"{self._shown()} is none of the words that can stand here", suggest(str(self.input), words)
        )

    def _out_of_range(self) -> Finding:
        (bound,) = self.context.values()
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        return self._found(
            f"{self._shown()} is out of range", f"write {words[next(iter(self.context))]} {bound}"
        )

    def _no_text(self) -> Finding:
        raw = self._raw(self.path) or self._shown(quoted=False)
        if isinstance(self.input, bool | int | float):
            kind = "true or false" if isinstance(self.input, bool) else "a number"
            return self._found(
                f"{raw} is {kind} where a text is meant", f'put it in quotes: "{raw}"', "RL008"
            )
        return self._found(f"{self._shown()} is no text", "write a text")

    def _no_flag(self) -> Finding:
        word = _YAML_WORDS.get(str(self.input).lower())
        if word is not None:
            return self._found(f"{self.input!r} is a word, not a flag (YAML 1.2)", f"write {word}", "RL007")
        return self._found(f"{self._shown()} is neither true nor false", "write true or false", "RL007")

    def _shown(self, *, quoted: bool = True) -> str:
        if self.input is None:
            return "nothing"
        if isinstance(self.input, dict | list | tuple):
            return "a mapping" if isinstance(self.input, dict) else "a list"
        text = str(self.input)
        text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        return repr(text) if quoted and isinstance(self.input, str) else text


def model_at(root: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model that stands at a path below a model; None when it is none."""
    current: Any = root
    for part in path:
        current = _inside(current, part)
    found = _models_in(current)
    return found[0] if found else None


def _inside(annotation: Any, part: str | int) -> Any:  # noqa: ANN401 - annotations are of any class
    if isinstance(part, int):
        arguments = _stripped(annotation, tuple)
        return arguments[0] if arguments else None
    for model in _models_in(annotation):
        for name, field in model.model_fields.items():
            if part in {name, field.alias}:
                return field.annotation
    arguments = _stripped(annotation, dict)
    return arguments[1] if arguments else None


def _stripped(annotation: Any, wanted: type) -> tuple[Any, ...]:  # noqa: ANN401 - as above
    """Arguments of `wanted[...]` inside Annotated, optional and nested wrappings."""
    if get_origin(annotation) is Annotated:
        return _stripped(get_args(annotation)[0], wanted)
    if get_origin(annotation) in {Union, UnionType}:
        return next((found for each in get_args(annotation) if (found := _stripped(each, wanted))), ())
    return get_args(annotation) if get_origin(annotation) is wanted else ()


def _models_in(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401 - as above
    if get_origin(annotation) is Annotated:
        return _models_in(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [model for each in get_args(annotation) for model in _models_in(each)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
