"""Schemas of every type, each understood by the library of its field.

The libraries are imported when the first schema of their type turns up: a broker without schemas
starts as if there were none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidSchemaError, SchemaTooLargeError
from goqueue.schemas.limits import MAX_SCHEMA_BYTES
from goqueue.schemas.model import Dependency, Parsed, Schema, SchemaType

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse(schema: Schema, dependencies: Sequence[Dependency]) -> Parsed:
    """Understand a schema; `dependencies` are all that it stands on, each before its users.

    Raises:
        InvalidSchemaError: it is none, names what is not among its dependencies, or needs a
            package that is not installed.
        SchemaTooLargeError: its text is longer than the limit.
    """
    check_text(schema)
    try:
        return _parse(schema, dependencies)
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None
    except ModuleNotFoundError as error:
        raise InvalidSchemaError(
            f"the server cannot read {schema.type} schemas without the package {error.name}:"
            " install it there with `pip install 'goqueue[schemas]'`"
        ) from None


def check_text(schema: Schema) -> None:
    """Refuse a text that is no schema, whatever its type. Cheap, and so done before all else.

    Raises:
        InvalidSchemaError, SchemaTooLargeError: as `parse`.
    """
    size = len(schema.text)
    if size > MAX_SCHEMA_BYTES:
        raise SchemaTooLargeError(f"a schema of {size} characters; the limit is {MAX_SCHEMA_BYTES}")
    if not schema.text.strip():
        raise InvalidSchemaError("the schema is empty")
    try:
        schema.text.encode()
    except UnicodeEncodeError:
        raise InvalidSchemaError("the schema holds half of a surrogate pair") from None


def _parse(schema: Schema, dependencies: Sequence[Dependency]) -> Parsed:
    # As the module says: whoever uses one type only, loads the library of that type only.
    if schema.type is SchemaType.AVRO:
        from goqueue.schemas.avro.schema import AvroSchema  # noqa: PLC0415 - see above

        return AvroSchema(schema.text, dependencies)
    if schema.type is SchemaType.JSON:
        from goqueue.schemas.json.schema import JsonSchema  # noqa: PLC0415 - see above

        return JsonSchema(schema.text, dependencies)
    from goqueue.schemas.protobuf.schema import ProtobufSchema  # noqa: PLC0415 - see above

    return ProtobufSchema(schema.text, dependencies)
