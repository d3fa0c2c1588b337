"""What we compile gives what rule-engine's own typed evaluation gives, for any condition and any symbols."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, get_type_hints

import pytest
import rule_engine
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rules.expression import read_condition
from rules.symbols import Symbols
from rules.vocabulary import ALL_GROUPS, SYMBOLS, Symbol, SymbolType

_FIELD_TYPES: Final = {
    SymbolType.TEXT: rule_engine.DataType.STRING,
    SymbolType.NUMBER: rule_engine.DataType.FLOAT,
    SymbolType.FLAG: rule_engine.DataType.BOOLEAN,
}
_TEXTS: Final = ("", "isolate", "80E01801", "x", "80")
_PATTERNS: Final = ("80", "^8.*1$", "[0-9]+E", "(a|x)", "", "x+")


def _object_type(group: str) -> Any:
    fields = {symbol.name: symbol.field for symbol in SYMBOLS[group].values()}
    return rule_engine.DataType.OBJECT(
        group,
        {symbol.name: _FIELD_TYPES[symbol.type] for symbol in SYMBOLS[group].values()},
        accessor=lambda value, name: getattr(value, fields[name]),
    )


TYPED: Final = rule_engine.Context(
    type_resolver={group: _object_type(group) for group in SYMBOLS}, resolver=rule_engine.resolve_attribute
)


def _symbols_of_type(wanted: SymbolType) -> list[Symbol]:
    return [symbol for group in SYMBOLS.values() for symbol in group.values() if symbol.type is wanted]


def _text_comparisons() -> st.SearchStrategy[str]:
    def comparing(symbol: Symbol) -> st.SearchStrategy[str]:
        words = st.sampled_from(sorted(symbol.words) if symbol.words else _TEXTS).map(
            lambda word: f'"{word}"'
        )
        listed = st.lists(words, min_size=1, max_size=4).map(", ".join)
        return st.one_of(
            st.builds(lambda op, word: f"{symbol} {op} {word}", st.sampled_from(["==", "!="]), words),
            st.builds(lambda op, word: f"{word} {op} {symbol}", st.sampled_from(["==", "!="]), words),
            st.builds(
                lambda op, words_: f"{symbol} {op} [{words_}]", st.sampled_from(["in", "not in"]), listed
            ),
            st.builds(
                lambda op, pattern: f'{symbol} {op} r"{pattern}"',
                st.sampled_from(["=~", "=~~", "!~", "!~~"]),
                st.sampled_from(_PATTERNS),
            ),
        )

    return st.sampled_from(_symbols_of_type(SymbolType.TEXT)).flatmap(comparing)


def _number_comparisons() -> st.SearchStrategy[str]:
    symbols = st.sampled_from([str(symbol) for symbol in _symbols_of_type(SymbolType.NUMBER)])
    numbers = st.integers(-3, 5).map(str)
    listed = st.lists(numbers, min_size=1, max_size=4).map(", ".join)
    operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(
            lambda left, op, right: f"{left} {op} {right}", symbols, operators, st.one_of(numbers, symbols)
        ),
        st.builds(lambda left, op, right: f"{left} {op} {right}", numbers, operators, symbols),
        st.builds(lambda symbol, words: f"{symbol} in [{words}]", symbols, listed),
    )


def _flags() -> st.SearchStrategy[str]:
    symbols = st.sampled_from([str(symbol) for symbol in _symbols_of_type(SymbolType.FLAG)])
    constants = st.sampled_from(["true", "false"])
    return st.one_of(
        symbols,
        st.builds(
            lambda left, op, right: f"{left} {op} {right}", symbols, st.sampled_from(["==", "!="]), constants
        ),
        st.builds(
            lambda left, op, right: f"{left} {op} {right}", symbols, st.sampled_from(["==", "!="]), symbols
        ),
    )


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        inner.map(lambda text: f"not {text}"),
        inner.map(lambda text: f"({text})"),
        st.builds(
            lambda left, op, right: f"{left} {op} {right}", inner, st.sampled_from(["and", "or"]), inner
        ),
        st.builds(lambda left, right: f"({left}) == ({right})", inner, inner),
    )


CONDITIONS: Final = st.recursive(
    st.one_of(_text_comparisons(), _number_comparisons(), _flags()), _joined, max_leaves=8
)


def _group(group_type: type) -> st.SearchStrategy[Any]:
    values = {str: st.sampled_from(_TEXTS), int: st.integers(-3, 5), bool: st.booleans()}
    return st.builds(group_type, **{name: values[kind] for name, kind in get_type_hints(group_type).items()})


SYMBOL_SETS: Final = st.builds(
    Symbols, **{name: _group(kind) for name, kind in get_type_hints(Symbols).items()}
)


@pytest.mark.slow
@settings(max_examples=4 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(text=CONDITIONS, symbols=SYMBOL_SETS)
@example(text="not fault.known == fault.counted", symbols=Symbols())
@example(text="not fault.known and run.ha or chain.hang == 0", symbols=Symbols())
@example(text='not fault.code in ["x"] or fault.code !~~ "8"', symbols=Symbols())
def test_a_compiled_condition_gives_what_rule_engine_gives(text: str, symbols: Symbols) -> None:
    ours = read_condition(text, ALL_GROUPS).matches(symbols)

    theirs = rule_engine.Rule(text, context=TYPED).evaluate(symbols)

    assert isinstance(ours, bool)
    assert ours == theirs


def test_the_differential_test_reads_every_symbol_there_is() -> None:
    fields = {
        (group.name, attribute.name)
        for group in dataclasses.fields(Symbols)
        for attribute in dataclasses.fields(get_type_hints(Symbols)[group.name])
    }

    assert {(symbol.group, symbol.field) for group in SYMBOLS.values() for symbol in group.values()} == fields
