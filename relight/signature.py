"""`--by`: whose name stands under a release or an order. Never nobody's: the record keeps it, and an empty one answers no question later."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., None])


def by_option(what: str) -> Callable[[_Command], _Command]:
    """The option, the person's login where it is left out."""
    return click.option("--by", default=_login, show_default="your login", callback=_named, help=what)


def _login() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name at all
        return ""


def _named(context: click.Context, option: click.Parameter, name: str | None) -> str:
    del context, option
    if name is None or not name.strip():
        raise click.BadParameter(
            "is empty, and the record keeps who it was: give a name, or leave --by out where you have a login"
        )
    return name.strip()
