"""The help of a command with many options: in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand


def grouped(groups: Mapping[str, tuple[str, ...]]) -> type[TyperCommand]:
    """Return a command whose help lists its parameters by name in these groups, and all others after them."""

    class Grouped(TyperCommand):
        def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - the library's own, which it keeps private
            left = {str(parameter.name): parameter for parameter in self.get_params(ctx)}
            chosen = {title: [left.pop(name) for name in names if name in left] for title, names in groups.items()}
            for title, parameters in {**chosen, "Options": list(left.values())}.items():
                records = [record for parameter in parameters if (record := parameter.get_help_record(ctx))]
                if records:
                    with formatter.section(title):
                        formatter.write_dl(records)

    return Grouped if groups else TyperCommand
