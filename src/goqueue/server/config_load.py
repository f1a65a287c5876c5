"""One configuration out of all sources, or one error with everything that is wrong."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.access.credentials import check_user_name
from goqueue.access.oidc.urls import check_url
from goqueue.model.errors import UnacceptableCredentialError
from goqueue.model.limits import MAX_USER_NAME_BYTES
from goqueue.server.config import LOOPBACK, SECTIONS, TABLE, Config, problem_with
from goqueue.server.config_cluster import ClusterSection
from goqueue.server.config_kinds import Address, MismatchError, Whole
from goqueue.server.config_node import ClientAuth
from goqueue.server.config_sources import (
    Given,
    read_environment,
    read_file,
    read_flags,
    shorten,
)
from goqueue.server.config_table import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
    from pathlib import Path

_PORT = Whole(0, 65535)
_MIN_ROOT_KEY_CHARS = 16


def load_config(
    arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Config:
    """The configuration that these flags, this environment and their file make together.

    Raises:
        ConfigError: with every problem there is, not only the first.
    """
    flags = read_flags(TABLE, arguments)
    variables = read_environment(TABLE, os.environ if environment is None else environment)
    location = flags.file or variables.file
    readings = [variables, flags]
    if location is not None:
        readings.insert(0, read_file(TABLE, *location))
    problems = [problem for reading in readings for problem in reading.problems]
    given = [item for reading in readings for item in reading.given]
    config = _with_cluster(_assemble(given, problems))
    problems.extend(check_config(config, {problem.setting for problem in problems}))
    if problems:
        raise ConfigError(problems)
    return config


def _assemble(given: Iterable[Given], problems: list[Problem]) -> Config:
    """Later values win; one that cannot be read is a problem, and the value before it stays."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    sources: dict[str, str] = {}
    # Ports last: they replace a part of an address that may come after them.
    for item in sorted(given, key=lambda item: item.port_only):
        row = item.setting
        section = values[row.section]
        try:
            if item.port_only:
                host = section.get(row.attribute, row.default).host
                section[row.attribute] = Address(host, _PORT.parse(item.raw))
            else:
                section[row.attribute] = row.parse(item.raw)
        except MismatchError:
            expected = _PORT.expected if item.port_only else row.kind.expected
            found = shorten(row.show(item.raw))
            problems.append(Problem(row.full_name, item.source, found, expected))
        else:
            sources[row.full_name] = item.source
    made = {section: kind(**values[section]) for section, kind in SECTIONS.items()}
    return Config(**made, sources=sources)


def _with_cluster(config: Config) -> Config:
    """A list of peers makes a cluster, unless it is switched off in as many words."""
    if not (config.cluster.enabled or config.cluster.peers):
        return config
    if not config.cluster.enabled:
        if "cluster.enabled" in config.sources:
            return config
        cluster = ClusterSection(**{**vars(config.cluster), "enabled": True})
        config = msgspec.structs.replace(config, cluster=cluster)
    from goqueue.server.config_cluster_checks import with_defaults  # noqa: PLC0415 - not alone

    return with_defaults(config)


def check_config(config: Config, wrong: AbstractSet[str]) -> list[Problem]:
    """Every problem, but for settings that are known to be `wrong` already."""
    found = [
        *_check_data_dir(config),
        *_check_listeners(config),
        *_check_copies(config),
        *_check_cluster(config),
        *_check_groups(config),
        *_check_tls(config),
        *_check_root_key(config),
        *_check_oidc(config),
        *_check_tenancy(config),
        *_check_users(config),
        *_check_proxies(config),
        *_check_exposure(config),
    ]
    return [problem for problem in found if problem.setting not in wrong]


def _check_data_dir(config: Config) -> Iterator[Problem]:
    folder = config.broker.data_dir
    if folder.exists() and not folder.is_dir():
        yield problem_with(config, "broker.data_dir", "a folder, not a file")
        return
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        yield problem_with(
            config, "broker.data_dir", f"a path where a folder can be made; {existing} is a file"
        )
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield problem_with(
            config, "broker.data_dir", f"a folder that can be written; {existing} cannot"
        )


def _check_listeners(config: Config) -> Iterator[Problem]:
    taken: dict[tuple[str, int], str] = {}
    for name in ("listeners.kafka", "listeners.http", "listeners.grpc"):
        address = getattr(config.listeners, name.removeprefix("listeners."))
        other = taken.setdefault(address, name)
        if other != name and address.port:
            yield problem_with(config, name, f"an address of its own; {other} has the same")


def _check_copies(config: Config) -> Iterator[Problem]:
    if config.topics.replication_factor != 1 and not config.cluster.enabled:
        yield problem_with(config, "topics.replication_factor", "1, since this node is on its own")


def _check_cluster(config: Config) -> Iterator[Problem]:
    if config.cluster.enabled:
        from goqueue.server.config_cluster_checks import check_cluster  # noqa: PLC0415 - not alone

        yield from check_cluster(config)


def _check_groups(config: Config) -> Iterator[Problem]:
    groups = config.groups
    if groups.min_session_timeout_ms > groups.max_session_timeout_ms:
        limit = f"at most groups.max_session_timeout, {groups.max_session_timeout_ms}ms"
        yield problem_with(config, "groups.min_session_timeout", limit)
    if groups.consumer_heartbeat_interval_ms >= groups.consumer_session_timeout_ms:
        limit = f"less than groups.consumer_session_timeout, {groups.consumer_session_timeout_ms}ms"
        yield problem_with(config, "groups.consumer_heartbeat_interval", limit)
    if groups.streams_heartbeat_interval_ms >= groups.streams_session_timeout_ms:
        limit = f"less than groups.streams_session_timeout, {groups.streams_session_timeout_ms}ms"
        yield problem_with(config, "groups.streams_heartbeat_interval", limit)
    for what in ("session_timeout", "heartbeat_interval", "record_lock_duration"):
        most_ms = getattr(groups, f"share_max_{what}_ms")
        if getattr(groups, f"share_min_{what}_ms") > most_ms:
            limit = f"at most groups.share_max_{what}, {most_ms}ms"
            yield problem_with(config, f"groups.share_min_{what}", limit)


def _check_tls(config: Config) -> Iterator[Problem]:
    tls = config.tls
    if not tls.enabled:
        return
    wanted: dict[str, Path | None] = {"tls.cert_file": tls.cert_file, "tls.key_file": tls.key_file}
    if tls.self_signed and not any(wanted.values()):
        wanted = {}
    if tls.ca_file is not None or tls.client_auth is not ClientAuth.NONE:
        wanted["tls.ca_file"] = tls.ca_file
    for name, path in wanted.items():
        if path is None:
            yield problem_with(config, name, "a PEM file, since tls.enabled is true")
        elif not path.is_file() or not os.access(path, os.R_OK):
            yield problem_with(config, name, "a file that exists and can be read")


def _check_root_key(config: Config) -> Iterator[Problem]:
    key = config.auth.root_key
    if key is not None and len(key) < _MIN_ROOT_KEY_CHARS:
        yield problem_with(config, "auth.root_key", f"at least {_MIN_ROOT_KEY_CHARS} characters")


def _check_exposure(config: Config) -> Iterator[Problem]:
    """Nothing is looked at where every listener is on loopback, as by default."""
    listeners = config.listeners
    if {listeners.kafka.host, listeners.http.host, listeners.grpc.host} <= LOOPBACK:
        return
    from goqueue.server.security.exposure import check_exposure  # noqa: PLC0415 - as said

    yield from check_exposure(config)


def _check_proxies(config: Config) -> Iterator[Problem]:
    if not config.http.trusted_proxies:
        return
    from goqueue.audit.addresses import TrustedProxies  # noqa: PLC0415 - few have any

    try:
        TrustedProxies(config.http.trusted_proxies)
    except ValueError as error:
        expected = f"addresses or networks such as 10.0.0.0/8; {error}"
        yield problem_with(config, "http.trusted_proxies", expected)


def _check_oidc(config: Config) -> Iterator[Problem]:
    said = config.oidc
    if said.issuer is None:
        return
    if not said.audience:
        yield problem_with(config, "oidc.audience", "an audience, since oidc.issuer is set")
    for name, url in (("oidc.issuer", said.issuer), ("oidc.jwks_url", said.jwks_url)):
        if url is not None and not check_url(url):
            yield problem_with(config, name, "an address with https://, or of this machine")
    if find_spec("joserfc") is None:
        yield problem_with(
            config, "oidc.issuer", "the extra `goqueue[oidc]`: pip install 'goqueue[oidc]'"
        )


def _check_tenancy(config: Config) -> Iterator[Problem]:
    if config.tenancy.enabled and not config.auth.enabled:
        yield problem_with(
            config, "tenancy.enabled", "auth.enabled: clients belong to a tenant by their logins"
        )


def _check_users(config: Config) -> Iterator[Problem]:
    """Names only. Whether there is anyone at all who may log in, the stored users say too."""
    try:
        for name, _ in config.sasl.users:
            check_user_name(name)
    except UnacceptableCredentialError:
        yield problem_with(
            config,
            "sasl.users",
            f"names of at most {MAX_USER_NAME_BYTES} bytes, without zero bytes",
        )
