"""``python -m benchmarks [NAME ...]``: run them all, or those named, and print one table."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import results
from benchmarks.harness import print_table, to_json

ALL = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *ALL], help=f"of: {', '.join(ALL)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="and as a page, with the machine and the day"
    )
    arguments = parser.parse_args()
    ratios = [
        ratio for name in arguments.names or ALL for ratio in import_module(f"benchmarks.bench_{name}").run()
    ]
    print_table(ratios)
    if arguments.json:
        arguments.json.write_text(to_json(ratios), "utf-8")
    if arguments.page:
        arguments.page.write_text(results.page(ratios), "utf-8")
    return any(ratio.verdict == "MISSED" for ratio in ratios)


if __name__ == "__main__":
    sys.exit(main())
