"""Recorded data of real fleets, kept outside the project: the folder that ``RELIGHT_DATA`` names."""

import os
from pathlib import Path

import pytest

from tests.real import parts


@pytest.fixture(scope="session")
def relight_data() -> Path:
    """The folder of recorded data; read only."""
    named = os.environ.get("RELIGHT_DATA", "")
    if not named:
        parts.give_up("recorded data", "set RELIGHT_DATA to its folder")
    folder = Path(named)
    if not folder.is_dir():
        parts.give_up("recorded data", f"RELIGHT_DATA={named} is no folder")
    return folder
