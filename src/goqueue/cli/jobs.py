"""`goqueue pipeline job`: archive topics and bring them back, copy them and clean them up."""

from __future__ import annotations

from goqueue.cli import jobs_reports
from goqueue.cli.job_frame import app

__all__ = ["app", "jobs_reports"]
