"""`pip install` of the documentation, without a network: what it names has to exist.

GoQueue has to have the extras that are asked for, and other packages have to be installed here.
"""

from __future__ import annotations

import sys
from importlib import metadata

from packaging.requirements import Requirement


def main(words: list[str]) -> None:
    """Check the arguments of one `pip install`."""
    assert words[0] == "install", words
    wanted = [word for word in words[1:] if not word.startswith("-")]
    assert wanted, "pip install of nothing"
    for word in wanted:
        named = Requirement(f"goqueue{word[1:]}" if word.startswith(".") else word)
        found = metadata.distribution(named.name)
        unknown = named.extras - set(found.metadata.get_all("Provides-Extra") or [])
        assert not unknown, f"{named.name} has no extra {', '.join(sorted(unknown))}"
        assert named.specifier.contains(found.version), f"{named}: {found.version} is installed"


if __name__ == "__main__":
    main(sys.argv[1:])
