"""What came of the demonstration: read from its topics and its table, and shown."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from goqueue.cli.messages.topic_reader import Source, time_range
from goqueue.cli.output import Format, emit, shortened
from goqueue.cli.times import show_size
from goqueue.protocols.http.queues.dead_letter_shapes import LetterLine, LetterList

if TYPE_CHECKING:
    from goqueue.cli.api import Api

_PAGE: Final = 1000
"""Dead letters that the broker tells of at once."""
_SHOWN: Final = 8
_ROWS: Final = 12
_WIDTH: Final = 60


def results(api: Api, archive: Path) -> dict[str, Any]:
    """Everything that `-o json` prints of it."""
    return {
        "revenue": _revenue(api),
        "dead_letters": dead_letters(api),
        "archive": _archive(archive),
    }


def _revenue(api: Api) -> list[dict[str, Any]]:
    """The newest figures of each minute and country."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for message in time_range(Source(api, "revenue", None, "none"), None, None):
        row = json.loads(message.value or "")
        newest[row["window_start"], row["country"]] = row
    return [newest[each] for each in sorted(newest)]


def dead_letters(api: Api) -> dict[str, Any]:
    """How many there are, and why."""
    letters: list[LetterLine] = []
    while True:
        page = api.get(LetterList, "/topics/{}/dlq", "orders", limit=_PAGE, skip=len(letters))
        letters += page.letters
        if len(page.letters) < _PAGE:
            break
    samples = {str(each.error).partition(" (")[0]: each.preview for each in letters}
    reasons = Counter(str(each.error).partition(" (")[0] for each in letters)
    rows = [
        {"why": why, "letters": many, "for example": shortened(samples[why], _WIDTH)}
        for why, many in reasons.most_common()
    ]
    return {"topic": page.dead_letter_topic, "total": page.total, "reasons": rows}


def _archive(folder: Path) -> dict[str, Any]:
    table = _dataset(folder)
    files = table.files
    size = sum(Path(each).stat().st_size for each in files)
    return {"folder": str(folder), "rows": table.count_rows(), "files": len(files), "bytes": size}


def archived_rows(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Orders and revenue of each country, and the first rows."""
    table = _dataset(folder).to_table().sort_by("id")
    sums = table.group_by("country").aggregate([("amount", "sum"), ("id", "count")])
    countries = [
        {
            "country": each["country"],
            "orders": each["id_count"],
            "revenue": round(each["amount_sum"], 2),
        }
        for each in sums.sort_by([("amount_sum", "descending")]).to_pylist()
    ]
    return countries, table.slice(0, _ROWS).to_pylist()


def _dataset(folder: Path) -> Any:
    from pyarrow import dataset  # noqa: PLC0415 - comes with Spark, needed at the end

    return dataset.dataset(folder, format="parquet", partitioning="hive")


def show_results(found: dict[str, Any], output: Format, pipeline: Path) -> None:
    """Print them: in a terminal, the last of them."""
    if output is not Format.TABLE:
        emit(found, output)
        return
    revenue, letters, archive = found["revenue"], found["dead_letters"], found["archive"]
    typer.echo(f"\nRevenue by the minute (topic revenue, the last {_SHOWN} of {len(revenue)}):")
    emit(revenue[-_SHOWN:], output)
    typer.echo(f"\nDead letters (topic {letters['topic']}, {letters['total']} in all):")
    emit(letters["reasons"], output)
    size = show_size(archive["bytes"])
    typer.echo(
        f"\nArchive ({archive['folder']}): {archive['rows']:,} rows, {archive['files']} Parquet "
        f"files, {size}"
    )
    typer.echo(f"\nThe pipeline is in {pipeline}.")
    typer.echo(f"The report with plots is in {found['report']}")
