"""Mapping tables: which series of an exporter become which signals. Data, so that a site adds an exporter or moves a limit without code.

A table names the labels that identify a chip and lists rows of four kinds. `codes`: gauges whose values are codes that stand. `last_code`: a
gauge that keeps the last code for ever, so that only its changes say something. `status`: a gauge with one good value. `rate`: counters that may
grow by so much within a window. A table that is wrong is refused as a whole, with file, place and what would be right.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from producers.errors import MappingError
from runtime.settings import read_duration
from schemas.signals import CodeText, Severity

SHIPPED: Final = Path(__file__).parent / "mappings"

SeriesName = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=200)]
Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]
WriteAs = Literal["hexadecimal", "decimal"]
Window = Annotated[timedelta, BeforeValidator(read_duration), Field(gt=timedelta(0), le=timedelta(hours=24))]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChipLabels(_Part):
    """Labels that say which chip a series is of."""

    id: tuple[Label, ...]
    """Stable identity: the first of these labels that is there and not empty."""
    index: Label
    """Position on the node: the identity where there is no better one."""
    bus: Label | None = None
    product: Label | None = None


class _Row(_Part):
    namespace: CodeText
    series: Annotated[tuple[SeriesName, ...], Field(min_length=1)]
    severity: Severity | None = None
    """Sent along; it decides only where the code table has no class for the code. None: such a code is notified and never isolates."""
    unless: str | None = None
    """Name of a source that sees the same better: with it switched on, this row is silent."""


class Codes(_Row):
    """Values are codes that stand; one series a slot."""

    read: Literal["codes"]
    write_as: WriteAs
    none: float = 0


class LastCode(_Row):
    """The value is the last code that was seen, for ever."""

    read: Literal["last_code"]
    write_as: WriteAs
    none: float = 0


class Status(_Row):
    """One value is good, every other is not."""

    read: Literal["status"]
    code: CodeText
    good: float
    only_after_good: bool = False
    """Something that was never good is not in use, and no fault."""


class Rate(_Row):
    """Counters, summed, that grow by more than `above` within `window`; well again when they grow by no more than `back_at`."""

    read: Literal["rate"]
    code: CodeText
    window: Window
    above: Annotated[float, Field(ge=0)]
    back_at: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _comes_back_below(self) -> Self:
        if self.back_at > self.above:
            raise ValueError(
                f"back_at ({self.back_at:g}) exceeds above ({self.above:g}): it would be raised and well at once"
            )
        return self


Row = Annotated[Codes | LastCode | Status | Rate, Field(discriminator="read")]


class Mapping(_Part):
    """One table."""

    exporter: Annotated[str, Field(min_length=1, max_length=100)]
    chip: ChipLabels
    signals: Annotated[tuple[Row, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _each_code_has_one_row(self) -> Self:
        named = [
            f"{row.namespace}/{row.code if isinstance(row, Status | Rate) else row.read}"
            for row in self.signals
        ]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} has two rows; one would clear what the other raised")
        return self


def load_mapping(source: str) -> Mapping:
    """Read a table: the name of a shipped one (`npu-exporter`), or the path of a file.

    Raises MappingError.
    """
    path = Path(source) if "/" in source or source.endswith((".yaml", ".yml")) else SHIPPED / f"{source}.yaml"
    try:
        content: Any = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        raise MappingError(
            f"mapping {source!r}: {error.strerror}; right would be a file, or one of {shipped}"
        ) from error
    except YAMLError as error:
        raise MappingError(f"mapping {path}: {error}") from error
    try:
        return Mapping.model_validate(content)
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']} (got {fault['input']!r:.100})"
            for fault in error.errors()
        ]
        raise MappingError("\n".join(lines)) from None
