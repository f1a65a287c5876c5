"""What holds for every test: who runs it, how it ends, and how it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

from support.effort import examples
from support.flaky import pytest_terminal_summary
from support.scheduling import pytest_xdist_auto_num_workers, pytest_xdist_make_scheduler
from support.stuck import pytest_configure

if TYPE_CHECKING:
    import pytest

__all__ = [
    "pytest_configure",
    "pytest_terminal_summary",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
]

# Property tests have no deadline, and data may take as long as it takes to make: a busy machine is
# no reason to fail.
settings.register_profile(
    "unhurried",
    settings.default,
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Log records look the same in every test: Spark gives pytest's handlers its own formatter."""
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        plugin.caplog_handler.setFormatter(plugin.formatter)
        plugin.report_handler.setFormatter(plugin.formatter)
