"""The commands that a Markdown file shows, and what it says they print.

Fenced blocks of `sh` are commands, one a line or continued by a backslash.
Blocks of `console` are commands after "$ " with their output, as a terminal
shows both streams. In an output, "…" stands for any text within its line, and
alone on a line for any lines.
"""

import dataclasses
import re
from typing import List, Optional

# What no two runs print alike. It is shown as it was once.
_VARIES = [
    (r"jobs/[0-9a-f]{32}", "jobs/ID"),
    (r'"sequence": "\d+"', '"sequence": N'),
    (r'"eta": "[\d.]+s"', '"eta": TIME'),
    (r'"(create|start|end)_time": "[^"]*"', r'"\1_time": TIME'),
    # Programs for people.
    (r"\b[\d.]+ KiB", "N KiB"),
    (r"\bdone in [\d.]+s", "done in TIME"),
]


@dataclasses.dataclass
class Block:
    """A fenced block; `line` is the number of its fence."""

    language: str
    line: int
    lines: List[str]


@dataclasses.dataclass
class Command:
    """`output` is None where the document shows none."""

    text: str
    line: int
    output: Optional[str] = None


def blocks(markdown):
    result = []
    block = None
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = re.match(r"```(\S*)$", line)
        if fence is None:
            if block is not None:
                block.lines.append(line)
        elif block is None:
            block = Block(fence.group(1), number, [])
        else:
            result.append(block)
            block = None
    if block is not None:
        raise ValueError(f"line {block.line}: a block that does not end")
    return result


def _commands(block):
    shows_output = block.language == "console"
    result = []
    continued = False
    for number, line in enumerate(block.lines, start=block.line + 1):
        if continued:
            result[-1].text += "\n" + line
        elif not shows_output:
            if not line or line.startswith("#"):
                continue
            result.append(Command(line, number))
        elif line.startswith("$ "):
            result.append(Command(line[2:], number, ""))
        elif result:
            result[-1].output += line + "\n"
        else:
            raise ValueError(f"line {number}: output of no command")
        is_command = continued or not shows_output or line.startswith("$ ")
        continued = is_command and line.endswith("\\")
    return result


def commands(markdown):
    """In the order of the document."""
    return [command for block in blocks(markdown)
            if block.language in ("sh", "console")
            for command in _commands(block)]


def inline_code(markdown):
    """The code spans outside of blocks."""
    prose = re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def _without_varying(text):
    for pattern, replacement in _VARIES:
        text = re.sub(pattern, replacement, text)
    return text


def matches(shown, printed):
    """Whether a document's output is what a command has printed."""
    pattern = ""
    for line in _without_varying(shown).splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split("…"))
            pattern += r"\n"
    return re.fullmatch(pattern, _without_varying(printed)) is not None
