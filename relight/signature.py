"""`--by` and `--reason`: whose name stands under a release or an order, and why it was given.

Never nobody's: the record keeps both, and an empty one answers no question later. What is longer than the record takes is refused here, where
the person can still say it shorter.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Final, TypeVar

import click

LONGEST_NAME: Final = 200
LONGEST_REASON: Final = 2000
"""Characters, as `schemas.mailbox` takes them; written again here so that no command line waits for the schemas to load."""
_Command = TypeVar("_Command", bound=Callable[..., None])
_Check = Callable[[click.Context, click.Parameter, str | None], str]


def by_option(what: str) -> Callable[[_Command], _Command]:
    """The option, the person's login where it is left out."""
    right = "give a name, or leave --by out where you have a login"
    return click.option(
        "--by", default=_login, show_default="your login", callback=_kept(LONGEST_NAME, right), help=what
    )


def reason_option(what: str) -> Callable[[_Command], _Command]:
    """The option; there is no reason that goes without saying."""
    return click.option(
        "--reason", required=True, callback=_kept(LONGEST_REASON, "say in a few words why"), help=what
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name at all
        return ""


def _kept(longest: int, right: str) -> _Check:
    """Refuses what the record cannot keep or has no use for."""

    def check(context: click.Context, option: click.Parameter, said: str | None) -> str:
        del context, option
        text = (said or "").strip()
        if not text:
            raise click.BadParameter(f"is empty, and the record keeps it: {right}")
        if len(text) > longest:
            raise click.BadParameter(
                f"has {len(text):,} characters, and the record keeps {longest:,}: {right}"
            )
        return text

    return check
