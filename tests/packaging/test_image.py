"""The steps of the image, in root file systems made of Debian's packages: one builds, one runs.

The root that runs has what the production image has: Python, and no package of a compiler. Needs
root, mmdebstrap and unshare; `make test-slow` runs it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.containers import image_health_check
from support.first_clients import (
    publish_by_curl,
    publish_by_kafka,
    read_by_curl,
    read_by_kafka,
)
from support.server import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "deploy/container/Dockerfile"
AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
USER: Final = 65532
WITHIN_S: Final = 1200
SHELLS: Final = ("bin/sh", "bin/bash", "bin/dash", "usr/bin/sh", "usr/bin/apt-get")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a root file system is made as root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed"),
]


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}"
    return done.stdout


def mirror() -> str:
    """The Debian mirror of this machine, from its own sources."""
    folder = Path("/etc/apt")
    texts = [path.read_text() for path in [*folder.glob("sources.list"), *folder.glob("*.d/*")]]
    found = re.search(
        r"^(?:URIs:|deb(?: \[.*?\])?) (\S+/debian)/?\s", "\n".join(texts), re.MULTILINE
    )
    assert found is not None, "no mirror of Debian in /etc/apt"
    return found.group(1)


def debian_root(folder: Path, *packages: str) -> Path:
    wanted = f"--include={','.join(packages)}"
    run("mmdebstrap", "--quiet", "--variant=apt", wanted, "bookworm", folder, mirror())
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the builder makes, from the files that .dockerignore lets in."""
    builder = debian_root(tmp_path_factory.mktemp("image") / "builder", "ca-certificates")
    sources = builder / "sources"
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file() and name.startswith(_copied()):
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, sources / name)
    shutil.copy(AUTHORITIES, builder / "etc/ssl/certs/ca-certificates.crt")
    run("chroot", builder, "/sources/deploy/container/build.sh", "/opt/goqueue", PIP_FIND_LINKS="")
    return builder / "opt/goqueue"


@pytest.fixture(scope="module")
def image(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with what the last stage of the Dockerfile copies, and like it without a shell."""
    folder = tmp_path_factory.mktemp("image") / "production"
    debian_root(folder, "python3-minimal", "libpython3-stdlib")
    for place in ("bin", "usr/bin", "usr/sbin"):
        for path in (folder / place).iterdir():
            if not path.name.startswith("python3"):
                path.unlink()
    return _with_data(built, folder)


@pytest.fixture(scope="module")
def debug_image(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the packages of the stage `debug`."""
    installed = re.search(r"--no-install-recommends (.+) \\\n", _stage("debug"))
    assert installed is not None
    folder = tmp_path_factory.mktemp("image") / "debug"
    return _with_data(built, debian_root(folder, *installed[1].split()))


def _with_data(built: Path, root: Path) -> Path:
    shutil.copytree(built, root / "opt/goqueue", symlinks=True)
    (root / "data").mkdir()
    os.chown(root / "data", USER, USER)
    return root


def _copied() -> tuple[str, ...]:
    """What .dockerignore lets in."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return tuple(line.removeprefix("!") for line in lines if line.startswith("!"))


class ImageProcess(ServerProcess):
    """The server of the image: its user, its environment, and a root that is read-only."""

    def __init__(self, root: Path, stage: str = "production") -> None:
        super().__init__(Path("/data"))
        script = (
            'mount --bind "$0" "$0" && mount --bind "$0/data" "$0/data"'
            ' && mount -o remount,bind,ro "$0"'
            f' && exec chroot --userspec={USER}:{USER} "$0" /opt/goqueue/bin/goqueue "$@"'
        )
        self.COMMAND = ("unshare", "--mount", "sh", "-ec", script, str(root), "server")
        declared = re.findall(r"(\w+)=(\S+?)(?: \\)?$", _stage(stage), re.MULTILINE)
        self.environment = {**dict(declared), "GOQUEUE_STORAGE_DISK_LIMIT_PERCENT": "100"}
        self.environment["PATH"] += ":/usr/sbin:/sbin"  # for unshare and chroot themselves


def _stage(name: str) -> str:
    return DOCKERFILE.read_text().partition(f" AS {name}\n")[2].partition("\nFROM ")[0]


@pytest.fixture
def served(image: Path) -> Iterator[ImageProcess]:
    process = ImageProcess(image)
    process.start()
    yield process
    process.close()


def test_the_image_serves_without_a_shell_on_a_read_only_root_and_keeps_its_data(
    image: Path, served: ImageProcess
) -> None:
    publish_by_kafka(served, "greetings", "hello")
    publish_by_curl(served, "letters", "by curl")
    served.kill()
    served.start()
    assert read_by_kafka(served, "greetings") == "hello"
    assert read_by_curl(served, "letters") == ["by curl"]
    assert not [name for name in SHELLS if (image / name).exists()]
    assert "ok" in run(
        "chroot",
        image,
        *image_health_check(),
        "--ready",
        GOQUEUE_SERVER=served.http_url,
        HOME="/data",
    )
    owners = {path.stat().st_uid for path in (image / "data").iterdir()}
    assert owners == {USER}
    assert "etcd Version: 3." in run("chroot", image, "/opt/goqueue/bin/etcd", "--version")


def test_the_last_stage_adds_no_shell_to_a_base_that_has_none() -> None:
    last = DOCKERFILE.read_text().rpartition("\nFROM ")[2]
    assert re.match(r"gcr\.io/distroless/\S+:nonroot AS production\n", last)
    assert not re.search(r"^RUN ", last, re.MULTILINE)
    assert f"\nUSER {USER}:{USER}\n" in last


def test_the_debug_image_serves_and_has_a_shell_curl_and_name_lookups(debug_image: Path) -> None:
    process = ImageProcess(debug_image, "debug")
    process.start()
    try:
        publish_by_kafka(process, "greetings", "hello")
        asked = f"curl --silent --fail {process.http_url}/topics && dig -v 2>&1 && command -v ps"
        assert "greetings" in run("chroot", debug_image, "sh", "-ec", asked)
    finally:
        process.close()
