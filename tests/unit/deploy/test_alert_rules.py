"""Rules that Prometheus takes, alerts that fire when they should, and a page for each."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from goqueue.model import errors
from support.promql import ROOT, Rule, alerts, rules, tool

if TYPE_CHECKING:
    from pathlib import Path

PROMETHEUS = ROOT / "deploy/prometheus"
UNIT_TESTS = sorted((PROMETHEUS / "tests").glob("*.test.yml"))
ALERTMANAGER = ROOT / "deploy/alertmanager"
RUNBOOKS = ROOT / "docs/how-to/runbooks.md"

# Those of a single node; the others need several: ISRShrinking, FrequentLeaderElections.
PROMISED = {
    *("HighConsumerLag", "CriticalConsumerLag", "NoOffsetCommits", "NodeDown", "NodeUnhealthy"),
    *("OfflinePartitions", "UnderReplicatedPartitions", "HighPublishLatency", "HighFetchLatency"),
    *("FsyncErrors", "HighFsyncLatency", "HighErrorRate", "FrequentRebalances", "BrokerDown"),
    *("ConsumerGroupUnstable", "StorageWriteErrors", "HighDiskUsage", "CriticalDiskUsage"),
    "ErrorBudgetBurn",
}


def anchors(page: Path) -> set[str]:
    """The sections of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def promtool(*arguments: str | Path) -> str:
    command = [tool("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_configuration_and_every_rule() -> None:
    said = promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert sum(map(int, re.findall(r"SUCCESS: (\d+) rules found", said))) == len(rules())


@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.name.partition(".")[0])
def test_alerts_fire_when_they_should_and_only_then(path: Path) -> None:
    promtool("test", "rules", path)


def test_every_alert_is_tried_both_firing_and_silent() -> None:
    found: dict[str, set[bool]] = {}
    for path in UNIT_TESTS:
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for check in case["promql_expr_test"]:
                (name,) = re.findall(r'alertname="(\w+)"', check["expr"])
                found.setdefault(name, set()).add(bool(check["exp_samples"]))
    assert {alert.name for alert in alerts()} == set(found)
    fires_at_once = {"GoQueueCriticalDiskUsage", "GoQueueDiskFullSoon"}  # silent for another node
    assert {name for name, seen in found.items() if seen != {True, False}} <= fires_at_once


def test_every_alert_that_was_promised_is_there() -> None:
    assert {alert.name for alert in alerts()} >= {f"GoQueue{name}" for name in PROMISED}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_an_alert_says_how_bad_it_is_what_it_means_and_what_to_do(alert: Rule) -> None:
    assert alert.fields["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert.fields["labels"]["component"]
    said = alert.fields["annotations"]
    assert set(said) == {"summary", "description", "runbook_url"}
    page, _, anchor = said["runbook_url"].partition("#")
    assert anchor == alert.name.lower()
    assert anchor in anchors(ROOT / page)


def test_every_page_about_an_alert_is_about_one_that_exists() -> None:
    found = re.findall(r"^## (GoQueue\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(alert.name for alert in alerts())


def test_the_commands_of_the_runbooks_exist() -> None:
    known = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    text = RUNBOOKS.read_text(encoding="utf-8")
    commands = set(re.findall(r"(?:^|`)(goqueue(?: [a-z][a-z-]+)+)", text, flags=re.MULTILINE))
    assert commands
    headings = set(re.findall(r"^#+ (goqueue[a-z -]*)$", known, flags=re.MULTILINE))
    for command in commands:
        words = command.split()
        prefixes = {" ".join(words[:length]) for length in range(2, len(words) + 1)}
        assert prefixes & headings, command


def test_the_options_of_those_commands_exist() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(--?[a-z-]+)`", page))
    lines = re.findall(
        r"(?:^|`)goqueue [^`\n]+", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE
    )
    used = {option for line in lines for option in re.findall(r"\s(--?[a-z-]+)", line)}
    assert {"--dry-run", "-p"} <= used
    assert used <= known


def test_what_counts_as_a_fault_of_the_broker_are_errors_that_there_are() -> None:
    classes = [name for name in vars(errors) if name.endswith("Error")]
    patterns = {
        pattern for rule in rules() for pattern in re.findall(r'error_type=~"([^"]+)"', rule.expr)
    }
    assert patterns
    for alternative in {part for pattern in patterns for part in pattern.split("|")}:
        assert any(re.fullmatch(alternative, name) for name in classes), alternative


# --- Alertmanager


def alertmanager() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ALERTMANAGER / "alertmanager.yml").read_text())
    return config


def test_alerts_are_sent_to_receivers_that_there_are() -> None:
    config = alertmanager()
    receivers = {receiver["name"] for receiver in config["receivers"]}
    route = config["route"]
    assert {route["receiver"], *(each["receiver"] for each in route["routes"])} == receivers
    assert (route["group_wait"], route["group_interval"], route["repeat_interval"]) == (
        "30s",
        "5m",
        "2h",
    )


def test_what_is_inhibited_and_routed_exists() -> None:
    config = alertmanager()
    names = {alert.name for alert in alerts()}
    labels = {
        (label, alert.fields["labels"][label])
        for alert in alerts()
        for label in ("severity", "component")
    }
    matchers = [each for route in config["route"]["routes"] for each in route["matchers"]]
    for rule in config["inhibit_rules"]:
        matchers += rule["source_matchers"] + rule["target_matchers"]
    for matcher in matchers:
        label, value = re.fullmatch(r'(\w+)=~?"([^"]+)"', matcher).groups()
        for each in value.split("|"):
            assert each in names if label == "alertname" else (label, each) in labels, matcher


def test_every_template_that_is_used_is_defined() -> None:
    text = (ALERTMANAGER / "alertmanager.yml").read_text(encoding="utf-8")
    templates = "".join(
        path.read_text(encoding="utf-8") for path in (ALERTMANAGER / "templates").glob("*.tmpl")
    )
    defined = set(re.findall(r'\{\{ define "([^"]+)"', templates))
    used = set(re.findall(r'\{\{ ?template "([^"]+)"', text + templates))
    assert used == defined


def test_no_secret_is_in_the_configuration() -> None:
    text = (ALERTMANAGER / "alertmanager.yml").read_text(encoding="utf-8")
    assert "slack_api_url:" not in text
    assert "routing_key:" not in text
    assert "service_key" not in text
