"""A data folder says whose it is, and whether something may be missing in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import ClusterMismatchError
from goqueue.runtime.disk import SystemDisk
from goqueue.server.cluster.node_folder import FolderIdentity, NodeFolder
from goqueue.server.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    file = tmp_path / "boot_id"
    file.write_text("first\n")
    return file


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def started(data: Path, boot: Path, cluster: str = "c", node: int = 1) -> FolderIdentity:
    folder = NodeFolder(data, SystemDisk(), boot)
    identity = folder.identify(folder.load(node), cluster, node)
    folder.take(identity)
    return identity


def settled(data: Path, boot: Path) -> NodeFolder:
    folder = NodeFolder(data, SystemDisk(), boot)
    identity = folder.identify(folder.load(1), "c", 1)
    folder.take(identity)
    folder.settle(identity)
    return folder


def test_a_new_folder_gets_an_id_and_promises_nothing(data: Path, boot: Path) -> None:
    first = started(data, boot)
    assert first.is_unclean
    assert len(first.folder_id) == 32
    assert started(data, boot) == first


def test_a_folder_of_the_same_boot_is_clean_after_a_kill(data: Path, boot: Path) -> None:
    settled(data, boot)
    assert not started(data, boot).is_unclean


def test_another_boot_is_clean_only_after_a_stop_in_order(data: Path, boot: Path) -> None:
    settled(data, boot).mark_clean()
    boot.write_text("second\n")
    assert not started(data, boot).is_unclean
    boot.write_text("third\n")
    assert started(data, boot).is_unclean


def test_a_marker_counts_for_one_start(data: Path, boot: Path) -> None:
    settled(data, boot).mark_clean()
    started(data, boot)
    boot.write_text("second\n")
    assert started(data, boot).is_unclean


def test_an_unclean_folder_stays_so_until_nobody_counts_on_it(data: Path, boot: Path) -> None:
    settled(data, boot)
    boot.write_text("second\n")
    assert started(data, boot).is_unclean
    assert started(data, boot).is_unclean
    settled(data, boot)
    assert not started(data, boot).is_unclean


def test_a_loss_that_a_start_has_found_is_remembered_by_the_next(data: Path, boot: Path) -> None:
    """The log is cut by then and looks whole, and the first start was killed before it said so."""
    settled(data, boot)
    folder = NodeFolder(data, SystemDisk(), boot)
    identity = folder.identify(folder.load(1), "c", 1)
    folder.take(identity)
    folder.doubt(identity)
    again = started(data, boot)
    assert not identity.is_unclean
    assert again.is_unclean
    folder.settle(identity)
    assert not started(data, boot).is_unclean


def test_without_a_boot_id_only_the_marker_counts(data: Path, boot: Path) -> None:
    settled(data, boot)
    boot.unlink()
    assert started(data, boot).is_unclean


def test_the_folder_of_another_node_is_refused(data: Path, boot: Path) -> None:
    started(data, boot)
    with pytest.raises(StartError, match="belongs to node 1 and this is node 2"):
        started(data, boot, node=2)


def test_the_folder_of_another_cluster_is_refused_with_both_names(data: Path, boot: Path) -> None:
    started(data, boot)
    with pytest.raises(ClusterMismatchError, match="'c' and the metadata to cluster 'd'"):
        started(data, boot, cluster="d")


def test_the_folder_of_a_server_on_its_own_is_refused(data: Path, boot: Path) -> None:
    (data / "metadata.db").touch()
    with pytest.raises(StartError, match="runs on its own"):
        started(data, boot)


def test_a_torn_node_file_is_refused(data: Path, boot: Path) -> None:
    started(data, boot)
    (data / "node.json").write_bytes(b'{"cluster')
    with pytest.raises(StartError, match="does not say whose folder"):
        started(data, boot)
