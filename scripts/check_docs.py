#!/usr/bin/env python3
"""Checks that the code in a document is code that the tests run.

check_docs.py DOCUMENT LANGUAGE PROGRAM: every block of DOCUMENT that is marked as LANGUAGE must stand
in PROGRAM, line by line and without a gap; indentation does not count, nor do empty lines. Exit
status 1 if one does not, 2 on misuse.
"""

import pathlib
import re
import sys


def significant_lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(lines, part):
    return any(lines[i:i + len(part)] == part for i in range(len(lines) - len(part) + 1))


def main(argv):
    if len(argv) != 4:
        print("usage: " + __doc__.splitlines()[2].partition(":")[0], file=sys.stderr)
        return 2
    document, language, program = argv[1:]
    text = pathlib.Path(document).read_text(encoding="utf-8")
    program_lines = significant_lines(pathlib.Path(program).read_text(encoding="utf-8"))
    blocks = re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if not blocks:
        print(f"{document} has no block of {language}", file=sys.stderr)
        return 1
    missing = [block for block in blocks if not contains(program_lines, significant_lines(block))]
    for block in missing:
        print(f"{document}: not in {program}:\n{block}", file=sys.stderr)
    print(f"{document}: {len(blocks) - len(missing)} of {len(blocks)} blocks are in {program}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
