"""The page of the command line says what the commands say."""

from __future__ import annotations

from pathlib import Path

from goqueue.cli.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference(), "make it anew: python -m goqueue.cli.reference"


def test_every_command_and_option_has_words_of_its_own() -> None:
    for line in reference().splitlines():
        if line.startswith("| `-"):
            assert len(line.split("|")[2].strip()) > 5, line
