"""Be an engine of ClickHouse 25.8: run the statements that come in as JSON lines, answer each with a line.

Arguments: the directory of the data. It runs with the Python of an environment of its own, which holds chdb alone:
a question is {"sql": …, "format": …}, an answer {"text": …} or {"error": …}.
"""

from __future__ import annotations

import json
import sys

from chdb import session


def main() -> None:
    engine = session.Session(sys.argv[1])
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"text": str(engine.query(question["sql"], question["format"]))}
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
