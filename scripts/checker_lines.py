"""Counts the lines of `gains-check`: those of `src` that are neither blank nor comments, without its tests.

    python3 scripts/checker_lines.py

Tests are modules in files of their own, `tests.rs`. For the exact checker, `exact.py` and `reading.py` are counted likewise.
"""

from pathlib import Path

CRATE = Path(__file__).parent.parent / "crates" / "gains-check"


def lines(path, comment):
    return sum(1 for line in path.read_text().splitlines() if line.strip() and not line.strip().startswith(comment))


def main():
    sources = sorted(path for path in (CRATE / "src").rglob("*.rs") if path.name != "tests.rs")
    counts = {str(path.relative_to(CRATE)): lines(path, "//") for path in sources}
    exact = {f"python/{name}": lines(CRATE / "python" / name, "#") for name in ("exact.py", "reading.py")}
    for group in (counts, exact):
        for name, count in group.items():
            print(f"{count:6} {name}")
        print(f"{sum(group.values()):6} in all")


if __name__ == "__main__":
    main()
