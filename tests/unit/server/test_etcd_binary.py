"""Which etcd is taken, from where it is installed, and with which flags it runs."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.commands.cluster import app
from goqueue.server.etcd import apt
from goqueue.server.etcd.binary import (
    EtcdBinary,
    EtcdError,
    EtcdVersion,
    cached_binary,
    etcd_environment,
    find_etcd,
)
from goqueue.server.etcd.command import EtcdMember, EtcdTls, etcd_command
from goqueue.server.etcd.install import install_etcd


def program(path: Path, version: str) -> Path:
    """A stand-in that tells a version as etcd does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return cached_binary()


# --- finding


def test_the_setting_goes_before_the_cache_and_the_cache_before_the_path(
    cache: Path, tmp_path: Path
) -> None:
    on_path = program(tmp_path / "bin" / "etcd", "3.5.28")
    assert find_etcd() == EtcdBinary(on_path, EtcdVersion(3, 5, 28))
    program(cache, "3.5.29")
    assert find_etcd().version == (3, 5, 29)
    named = program(tmp_path / "mine", "3.6.14")
    assert find_etcd(str(named)) == EtcdBinary(named, EtcdVersion(3, 6, 14))


@pytest.mark.parametrize("version", ["3.4.23", "3.5.1", "3.5.15", "4.0.0"])
def test_a_version_that_is_not_fit_is_refused_with_what_to_do(cache: Path, version: str) -> None:
    program(cache, version)
    with pytest.raises(EtcdError, match=rf"{version}, expected 3\.5\.16 or newer.*install-etcd"):
        find_etcd()


@pytest.mark.parametrize(
    ("version", "is_good"),
    [("3.5.16", False), ("3.5.27", False), ("3.5.28", True), ("3.6.0", True), ("3.10.1", True)],
)
def test_an_old_version_is_taken_with_a_warning(cache: Path, version: str, is_good: bool) -> None:
    program(cache, version)
    assert (find_etcd().warning is None) == is_good


def test_what_is_missing_or_no_etcd_is_told(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(EtcdError, match=r"was not found.*on the PATH.*install-etcd"):
        find_etcd()
    with pytest.raises(EtcdError, match=r"names /nowhere/etcd, which is no file: correct"):
        find_etcd("/nowhere/etcd")
    with pytest.raises(EtcdError, match=r"/bin/true did not tell a version"):
        find_etcd("/bin/true")
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(EtcdError, match=r"text does not run here \(Permission denied\)"):
        find_etcd(str(text))


# --- installing


def test_an_archive_or_a_program_given_as_a_file_is_put_into_the_cache(
    cache: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    made = program(tmp_path / "etcd-v3.5.29" / "etcd", "3.5.29")
    archive = tmp_path / "etcd-v3.5.29.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(made.parent, arcname="etcd-v3.5.29")
    assert install_etcd(told.append, source=archive).version == (3, 5, 29)
    other = program(tmp_path / "other", "3.6.1")
    assert install_etcd(told.append, source=other).path == cache
    assert find_etcd().version == (3, 6, 1)
    assert told[-1] == f"etcd 3.6.1 is in {cache}"
    assert install_etcd(told.append).version == (3, 6, 1)
    assert told[-1] == "etcd 3.6.1 is installed already"
    assert [path.name for path in cache.parent.iterdir()] == ["etcd"]


def test_a_file_that_is_not_fit_leaves_the_installed_one_in_place(
    cache: Path, tmp_path: Path
) -> None:
    program(cache, "3.5.30")
    old = program(tmp_path / "old", "3.4.23")
    with pytest.raises(EtcdError, match=f"etcd in {old} is version 3.4.23"):
        install_etcd(lambda _: None, source=old)
    with pytest.raises(EtcdError, match="there is no file"):
        install_etcd(lambda _: None, source=tmp_path / "none.deb")
    empty = tmp_path / "empty.deb"
    empty.write_bytes(b"")
    with pytest.raises(EtcdError, match=r"empty.deb could not be unpacked|No such file"):
        install_etcd(lambda _: None, source=empty)
    assert find_etcd().version == (3, 5, 30)


def test_the_mirror_is_the_one_of_the_machine_s_own_sources(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://old/debian bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\n"
        "deb-src http://sources/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/x.gpg] https://tools.example/apt stable main\n"
        "deb [ trusted=yes ] http://near/debian/ bookworm main contrib # the nearest\n"
        "deb http://near/debian-security bookworm-security main\n"
    )
    (parts / "debian.sources").write_text(
        "# a comment\nTypes: deb deb-src\nURIs: http://far/debian\n http://further/debian/\n"
        "Suites: trixie trixie-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n key\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://off/debian\nSuites: trixie\nComponents: main\n"
    )
    assert apt.mirrors(tmp_path) == [
        "http://near/debian",
        "http://far/debian",
        "http://further/debian",
        "https://tools.example/apt",
    ]
    assert apt.mirrors(tmp_path / "nowhere") == []


def test_a_machine_without_debian_s_keyring_is_told_of_the_other_way(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apt, "KEYRINGS", (tmp_path / "none.gpg",))
    with pytest.raises(EtcdError, match=r"keyring.*install-etcd --from FILE"):
        install_etcd(lambda _: None)


# --- running


def member(**others: object) -> EtcdMember:
    values: dict[str, object] = {
        "name": "node-1",
        "data_folder": Path("/data/etcd"),
        "log_file": Path("/data/etcd.log"),
        "client_url": "http://h1:7001",
        "peers": {"node-1": "http://h1:7002", "node-2": "http://h2:7002"},
        "token": "abc",
    }
    return EtcdMember(**{**values, **others})  # type: ignore[arg-type]


def flags(version: EtcdVersion, of: EtcdMember) -> dict[str, str]:
    path, *given = etcd_command(EtcdBinary(Path("/bin/etcd"), version), of)
    assert path == "/bin/etcd"
    return dict(each.removeprefix("--").split("=", 1) for each in given)


def test_flags_have_the_names_of_their_version() -> None:
    old = flags(EtcdVersion(3, 5, 30), member())
    new = flags(EtcdVersion(3, 6, 14), member())
    assert old["experimental-watch-progress-notify-interval"] == "500ms"
    assert old["experimental-initial-corrupt-check"] == "true"
    assert new["watch-progress-notify-interval"] == "500ms"
    assert new["feature-gates"] == "InitialCorruptCheck=true,CompactHashCheck=true"
    assert not [name for name in new if name.startswith("experimental")]
    assert old["initial-cluster"] == "node-1=http://h1:7002,node-2=http://h2:7002"
    assert (old["heartbeat-interval"], old["election-timeout"]) == ("50", "500")


def test_a_slow_disk_gets_more_time_and_names_are_listened_on_by_address() -> None:
    made = flags(EtcdVersion(3, 5, 30), member(has_slow_disk=True, listen_host="::1"))
    assert (made["heartbeat-interval"], made["election-timeout"]) == ("100", "1000")
    assert made["listen-client-urls"] == "http://[::1]:7001"
    assert made["listen-peer-urls"] == "http://[::1]:7002"
    assert made["advertise-client-urls"] == "http://h1:7001"


def test_tls_asks_both_sides_for_a_certificate() -> None:
    tls = EtcdTls(Path("/c"), Path("/k"), Path("/ca"))
    made = flags(EtcdVersion(3, 5, 30), member(tls=tls))
    assert made["client-cert-auth"] == made["peer-client-cert-auth"] == "true"
    assert made["trusted-ca-file"] == made["peer-trusted-ca-file"] == "/ca"


def test_variables_that_would_set_flags_are_left_out() -> None:
    assert etcd_environment({"ETCD_NAME": "x", "PATH": "/bin"}) == {"PATH": "/bin"}


# --- the command


def test_the_command_tells_where_etcd_is_and_what_went_wrong(cache: Path, tmp_path: Path) -> None:
    source = program(tmp_path / "given", "3.5.27")
    result = CliRunner().invoke(app, ["install-etcd", "--from", str(source), "-o", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"etcd": str(cache), "version": "3.5.27"}
    assert "has known bugs that 3.5.28 and newer have not" in result.stderr
    result = CliRunner().invoke(app, ["install-etcd", "--from", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert "there is no file" in result.stderr


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="this machine has no apt")
def test_apt_works_in_a_folder_of_its_own(tmp_path: Path) -> None:
    configuration = apt._prepare(tmp_path, "deb http://near/debian forky main\n").read_text()
    assert (tmp_path / "sources.list").read_text() == "deb http://near/debian forky main\n"
    for line in (
        f'Dir::State "{tmp_path}/state";',
        f'Dir::Cache "{tmp_path}/cache";',
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";',
        'Dir::Etc::parts "/dev/null";',
        'Acquire::Check-Valid-Until "false";',
        'APT::Sandbox::User "root";',
    ):
        assert line in configuration.splitlines()
