"""What holds for every test: who runs it, how it ends, and how it is told."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from support.flaky import pytest_terminal_summary
from support.scheduling import pytest_xdist_auto_num_workers, pytest_xdist_make_scheduler
from support.stuck import pytest_configure

__all__ = [
    "pytest_configure",
    "pytest_terminal_summary",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
]

# Property tests have no deadline, and data may take as long as it takes to make: a busy machine is
# no reason to fail.
settings.register_profile(
    "unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")
