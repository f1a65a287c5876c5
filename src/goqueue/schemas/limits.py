"""Bounds of the registry and of validation, with what happens at each."""

from typing import Final

MAX_CONTEXTS: Final = 1000
"""Contexts of the registry; one more is refused with `SchemaOperationNotPermittedError`."""

MAX_COMPARISONS: Final = 100_000
"""Pairs of parts that two schemas are compared by: a second or two. A schema that needs
more, such as a union of thousands where there was one of thousands, is invalid."""

MAX_DEPENDENCIES: Final = 200
"""Schemas that one schema may stand on, directly or not; with more it is invalid."""

MAX_SCHEMA_BYTES: Final = 1_000_000
"""The text of one schema; a longer one is refused with `SchemaTooLargeError`."""

MAX_SUBJECT_CHARS: Final = 1000
"""The name of one subject; a longer one is refused with `InvalidSubjectError`."""

MAX_VERSION: Final = 2**31 - 1
"""The largest number of a version; a larger one is refused with `InvalidSchemaVersionError`."""

MAX_VERSIONS: Final = 100_000
"""Versions of all subjects; one more is refused with `SchemaOperationNotPermittedError`."""
