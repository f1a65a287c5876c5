"""Only the command itself is heard, whoever works for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = """
import subprocess, sys
from pathlib import Path
from goqueue.cli.output import note
from goqueue.cli.spark.redirects import stderr_to_file

note("before")
with stderr_to_file(Path(sys.argv[1])):
    worker = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stderr.write(sys.stdin.read())"],
        stdin=subprocess.PIPE, text=True,
    )
    note("meanwhile")
worker.communicate("a trace\\n")
subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('of its own\\\\n')"])
note("after")
"""


def test_what_a_worker_says_goes_to_a_file_also_when_it_outlives_the_block(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(log)], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == ["before", "meanwhile", "of its own", "after"]
    assert log.read_text() == "a trace\n"


REPORT = """
import subprocess, sys
from pathlib import Path
from goqueue.cli.spark.redirects import stderr_to_file, stdout_to_stderr

print("before")
with stdout_to_stderr(), stderr_to_file(Path(sys.argv[1])):
    worker = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(sys.stdin.read())"],
        stdin=subprocess.PIPE, text=True,
    )
    print("a step prints")
worker.communicate("a row")
print('{"rows": 1}')
"""


def test_a_report_is_alone_on_standard_output_whatever_is_printed_before(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
    )
    before, report = done.stdout.splitlines()
    assert (before, json.loads(report)) == ("before", {"rows": 1})
    assert done.stderr.split() == ["a", "step", "prints", "a", "row"]
