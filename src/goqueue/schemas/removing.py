"""Deleting, levels and modes: the rest of what the registry decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from goqueue.schemas.model import Level, Mode
from goqueue.schemas.registry import LATEST, MAX_VERSIONS, Decided, check_subject
from goqueue.schemas.state import gone, level_entry, mode_entry, version_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.schemas.registry import Registry
    from goqueue.schemas.state import Entry, Version


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
    versions = list(registry.state.subjects.get(subject, {}).values())
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
    if subject in registry.state.levels:
        entries.append(level_entry(subject, None))
    if subject in registry.state.modes:
        entries.append(mode_entry(subject, None))
    return Decided(entries, [each.number for each in living])


def delete_version(
    registry: Registry, subject: str, number: int, *, permanent: bool
) -> Decided[int]:
    """Delete one version of a subject. Returns its number; raises like `delete_subject`."""
    _check_writable(registry, subject)
    versions = registry.state.subjects.get(subject, {})
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
    state = registry.state
    numbers = {(subject, each.number) for each in versions}
    entries = [gone("version", subject, each.number) for each in versions]
    used = sorted({each.schema_id for each in versions})
    entries += [gone("schema", each) for each in used if state.uses[each] <= numbers]
    if len(versions) == len(state.subjects[subject]):
        entries.append(gone("subject", subject))
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
    """The ids of schemas that refer to a version."""
    state = registry.state
    return sorted(
        schema_id
        for schema_id in state.referrers.get((subject, number), ())
        if deleted
        or any(not state.subjects[name][at].is_deleted for name, at in state.uses[schema_id])
    )


# --- Levels and modes ----------------------------------------------------------------------------


def set_level(registry: Registry, subject: str | None, level: Level) -> Decided[Level]:
    """Give a subject, or everyone without one of their own, a compatibility level."""
    _check_owner(registry, subject)
    _check_room(registry.state.levels, subject)
    return Decided([level_entry(subject, level)], level)


def clear_level(registry: Registry, subject: str | None) -> Decided[Level]:
    """Take a level away; returns what it was. Everyone's goes back to BACKWARD.

    Raises:
        SubjectNotFoundError: the subject has none of its own.
    """
    _check_owner(registry, subject)
    level = registry.state.levels.get(subject)
    if level is None:
        if subject is not None:
            raise SubjectNotFoundError(f"Subject '{subject}' not found.")
        return Decided([], Level.BACKWARD)
    return Decided([level_entry(subject, None)], level)


def own_level(registry: Registry, subject: str) -> Level:
    """The level that was set for this subject.

    Raises:
        CompatibilityNotConfiguredError: none was.
    """
    try:
        return registry.state.levels[subject]
    except KeyError:
        raise CompatibilityNotConfiguredError(
            f"Subject '{subject}' does not have subject-level compatibility configured"
        ) from None


def set_mode(
    registry: Registry, subject: str | None, mode: Mode, *, force: bool = False
) -> Decided[Mode]:
    """Give a subject, or everyone without one of their own, a mode.

    Raises:
        SchemaOperationNotPermittedError: schemas are to be imported where some are already.
    """
    if subject is not None:
        check_subject(subject)
    if mode is Mode.IMPORT and not force and registry.mode(subject or "") is not Mode.IMPORT:
        names = registry.state.subjects if subject is None else [subject]
        if any(not each.is_deleted for name in names for each in _versions(registry, name)):
            raise SchemaOperationNotPermittedError("Cannot import since found existing subjects")
    _check_room(registry.state.modes, subject)
    return Decided([mode_entry(subject, mode)], mode)


def clear_mode(registry: Registry, subject: str | None) -> Decided[Mode]:
    """Take a mode away; returns what it was. Everyone's goes back to READWRITE.

    Raises:
        SubjectNotFoundError: the subject has none of its own.
    """
    mode = registry.state.modes.get(subject)
    if mode is None:
        if subject is not None:
            raise SubjectNotFoundError(f"Subject '{subject}' not found.")
        return Decided([], Mode.READWRITE)
    return Decided([mode_entry(subject, None)], mode)


def own_mode(registry: Registry, subject: str) -> Mode:
    """The mode that was set for this subject.

    Raises:
        SchemaModeNotConfiguredError: none was.
    """
    try:
        return registry.state.modes[subject]
    except KeyError:
        raise SchemaModeNotConfiguredError(
            f"Subject '{subject}' does not have subject-level mode configured"
        ) from None


def _check_room(settings: Mapping[str | None, object], subject: str | None) -> None:
    """Subjects need not exist to be given a level or a mode; there is a bound to it."""
    if subject not in settings and len(settings) >= MAX_VERSIONS:
        raise SchemaOperationNotPermittedError(
            f"{MAX_VERSIONS} subjects have settings of their own, and no more fit: take some away"
        )


def _versions(registry: Registry, subject: str) -> list[Version]:
    return list(registry.state.subjects.get(subject, {}).values())


def _check_owner(registry: Registry, subject: str | None) -> None:
    if subject is not None:
        check_subject(subject)
    if registry.mode(subject or "") is Mode.READONLY:
        raise SchemaOperationNotPermittedError("the registry is in read-only mode")
