"""Deleting, levels and modes: the rest of what the registry decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import (
    CompatibilityNotConfiguredError,
    SchemaModeNotConfiguredError,
    SchemaOperationNotPermittedError,
    SchemaReferencedError,
    SchemaVersionNotFoundError,
    SchemaVersionNotSoftDeletedError,
    SchemaVersionSoftDeletedError,
    SubjectNotFoundError,
    SubjectNotSoftDeletedError,
    SubjectSoftDeletedError,
)
from goqueue.schemas.contexts import Qualified
from goqueue.schemas.limits import MAX_VERSIONS
from goqueue.schemas.model import Level, Mode
from goqueue.schemas.registry import LATEST, Registry, check_subject
from goqueue.schemas.state import (
    Entry,
    RegistryState,
    Version,
    level_entry,
    mode_entry,
    schema_tombstone,
    tombstone,
    version_entry,
)
from goqueue.state.serial import Decided

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")


def delete_subject(registry: Registry, subject: str, *, permanent: bool) -> Decided[list[int]]:
    """Delete all versions of a subject; for ever only what was deleted before.

    Returns their numbers.

    Raises:
        SubjectNotFoundError, SubjectSoftDeletedError, SubjectNotSoftDeletedError: it is not there,
            or not as it has to be.
        SchemaReferencedError: others refer to it.
        SchemaOperationNotPermittedError: the subject is read-only.
    """
    _check_writable(registry, subject)
    state = registry.contexts.of(subject)
    versions = list(state.subjects.get(subject, {}).values())
    if not versions:
        raise SubjectNotFoundError(f"Subject '{subject}' not found.")
    living = [each for each in versions if not each.is_deleted]
    if permanent:
        if living:
            raise SubjectNotSoftDeletedError(
                f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        _check_unreferenced(registry, subject, versions, even_by_deleted=True)
        return Decided(_remove(registry, subject, versions), [each.number for each in versions])
    if not living:
        raise SubjectSoftDeletedError(
            f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
        )
    _check_unreferenced(registry, subject, living, even_by_deleted=False)
    entries = [version_entry(subject, each._replace(is_deleted=True)) for each in living]
    if subject in state.levels:
        entries.append(tombstone("level", subject))
    if subject in state.modes:
        entries.append(tombstone("mode", subject))
    return Decided(entries, [each.number for each in living])


def delete_version(
    registry: Registry, subject: str, number: int, *, permanent: bool
) -> Decided[int]:
    """Delete one version of a subject. Returns its number; raises like `delete_subject`."""
    _check_writable(registry, subject)
    versions = registry.contexts.of(subject).subjects.get(subject, {})
    if not versions:
        raise SubjectNotFoundError(f"Subject '{subject}' not found.")
    if number == LATEST:
        number = registry.version(subject, LATEST, deleted=permanent).version.number
    version = versions.get(number)
    if version is None:
        raise SchemaVersionNotFoundError(f"Version {number} not found.")
    if permanent:
        if not version.is_deleted:
            raise SchemaVersionNotSoftDeletedError(
                f"Subject '{subject}' Version {number} was not deleted first before being "
                "permanently deleted"
            )
        _check_unreferenced(registry, subject, [version], even_by_deleted=True)
        return Decided(_remove(registry, subject, [version]), number)
    if version.is_deleted:
        raise SchemaVersionSoftDeletedError(
            f"Subject '{subject}' Version {number} was soft deleted. Set permanent=true to delete "
            "permanently"
        )
    _check_unreferenced(registry, subject, [version], even_by_deleted=False)
    return Decided([version_entry(subject, version._replace(is_deleted=True))], number)


def _remove(registry: Registry, subject: str, versions: list[Version]) -> list[Entry]:
    """Versions go, and schemas that no version has any more."""
    state = registry.contexts.of(subject)
    numbers = {(subject, each.number) for each in versions}
    entries = [tombstone("version", subject, each.number) for each in versions]
    used = sorted({each.schema_id for each in versions})
    entries += [
        schema_tombstone(each, state.context) for each in used if state.uses[each] <= numbers
    ]
    if len(versions) == len(state.subjects[subject]):
        entries.append(tombstone("subject", subject))
    return entries


def _check_writable(registry: Registry, subject: str) -> None:
    if registry.mode(subject) is Mode.READONLY:
        raise SchemaOperationNotPermittedError(f"Subject {subject} is in read-only mode")


def _check_unreferenced(
    registry: Registry, subject: str, versions: list[Version], *, even_by_deleted: bool
) -> None:
    """Refuse to take away what others stand on.

    What is deleted but not for ever can still be read, and needs what it refers to as long as that.
    """
    for version in versions:
        referrers = referenced_by(registry, subject, version.number, deleted=even_by_deleted)
        if referrers:
            raise SchemaReferencedError(
                f"One or more references exist to version {version.number} of subject '{subject}': "
                f"from the schemas with the ids {', '.join(map(str, referrers[:10]))}"
            )


def referenced_by(registry: Registry, subject: str, number: int, *, deleted: bool) -> list[int]:
    """The ids of schemas that refer to a version, whichever context they are of."""
    return sorted(
        schema_id
        for state in registry.contexts.by_context.values()
        for schema_id in state.referrers.get((subject, number), ())
        if deleted
        or any(not state.subjects[name][at].is_deleted for name, at in state.uses[schema_id])
    )


# --- Levels and modes ----------------------------------------------------------------------------


def set_level(registry: Registry, subject: str | None, level: Level) -> Decided[Level]:
    """Give a subject, or all of a context without one of their own, a compatibility level.

    Without a subject it is the default context.
    """
    state, owner = _owned(registry, subject)
    _check_changeable(registry, subject)
    _check_room(state.levels, owner)
    return Decided([level_entry(state.owner(owner), level)], level)


def clear_level(registry: Registry, subject: str | None) -> Decided[Level]:
    """Take a level away; returns what it was. That of a context goes back to BACKWARD.

    Raises:
        SubjectNotFoundError: the subject has none of its own.
    """
    state, owner = _owned(registry, subject)
    _check_changeable(registry, subject)
    return _cleared("level", state.levels, state, owner, Level.BACKWARD)


def own_level(registry: Registry, subject: str) -> Level:
    """The level that was set for this subject; that of a context counts without being set.

    Raises:
        CompatibilityNotConfiguredError: none was.
    """
    state, owner = _owned(registry, subject)
    level = state.levels.get(owner)
    if level is None and owner is not None:
        raise CompatibilityNotConfiguredError(
            f"Subject '{subject}' does not have subject-level compatibility configured"
        )
    return level or Level.BACKWARD


def set_mode(
    registry: Registry, subject: str | None, mode: Mode, *, force: bool = False
) -> Decided[Mode]:
    """Give a subject, or all of a context without one of their own, a mode.

    Raises:
        SchemaOperationNotPermittedError: schemas are to be imported where some are already.
    """
    state, owner = _owned(registry, subject)
    if mode is Mode.IMPORT and not force and registry.mode(subject or "") is not Mode.IMPORT:
        names = state.subjects if owner is None else [owner]
        if any(not each.is_deleted for name in names for each in _versions(state, name)):
            raise SchemaOperationNotPermittedError("Cannot import since found existing subjects")
    _check_room(state.modes, owner)
    return Decided([mode_entry(state.owner(owner), mode)], mode)


def clear_mode(registry: Registry, subject: str | None) -> Decided[Mode]:
    """Take a mode away; returns what it was. That of a context goes back to READWRITE.

    Raises:
        SubjectNotFoundError: the subject has none of its own.
    """
    state, owner = _owned(registry, subject)
    return _cleared("mode", state.modes, state, owner, Mode.READWRITE)


def own_mode(registry: Registry, subject: str) -> Mode:
    """The mode that was set for this subject; that of a context counts without being set.

    Raises:
        SchemaModeNotConfiguredError: none was.
    """
    state, owner = _owned(registry, subject)
    mode = state.modes.get(owner)
    if mode is None and owner is not None:
        raise SchemaModeNotConfiguredError(
            f"Subject '{subject}' does not have subject-level mode configured"
        )
    return mode or Mode.READWRITE


def _cleared(
    kind: str,
    settings: Mapping[str | None, _T],
    state: RegistryState,
    owner: str | None,
    default: _T,
) -> Decided[_T]:
    value = settings.get(owner)
    if value is not None:
        return Decided([tombstone(kind, state.owner(owner))], value)
    if owner is not None:
        raise SubjectNotFoundError(f"Subject '{owner}' not found.")
    return Decided([], default)


def _owned(registry: Registry, subject: str | None) -> tuple[RegistryState, str | None]:
    """The state that a setting is of, and its owner there; None is the context itself."""
    if subject is None:
        return registry.state, None
    state = registry.contexts.of(subject)
    if not Qualified.of(subject).name:
        registry.check_context(subject)
        return state, None
    check_subject(subject)
    return state, subject


def _check_changeable(registry: Registry, subject: str | None) -> None:
    if registry.mode(subject or "") is Mode.READONLY:
        raise SchemaOperationNotPermittedError("the registry is in read-only mode")


def _check_room(settings: Mapping[str | None, object], owner: str | None) -> None:
    """Subjects need not exist to be given a level or a mode; there is a bound to it."""
    if owner not in settings and len(settings) >= MAX_VERSIONS:
        raise SchemaOperationNotPermittedError(
            f"{MAX_VERSIONS} subjects have settings of their own, and no more fit: take some away"
        )


def _versions(state: RegistryState, subject: str) -> list[Version]:
    return list(state.subjects.get(subject, {}).values())
