from __future__ import annotations

import subprocess
import sys

import pytest

import goqueue


def test_importing_the_package_does_not_import_grpc():
    code = "import goqueue, sys; print(sorted({'grpc', 'google'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", sorted({*goqueue.__all__} - {"__version__"}))
def test_the_clients_are_found_where_people_look(name):
    assert getattr(goqueue, name).__name__ == name


def test_what_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Klient"):
        goqueue.Klient  # noqa: B018 - the access is the test
