"""README and documentation as what they promise: code blocks, command lines, links."""

import re
import shlex
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "results").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
MADE = {"docs/commands.md", "docs/tour.md"}  # docs/site.py makes them for the site
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(rmt [^`\n]+)`(?!`)")
LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*?)\s*$", re.MULTILINE)
PLACEHOLDERS = ("…", "CMD", "COMMAND", "|")  # a text in a sentence that is no whole command line


class Fence(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str  # "needs a GPU": the block is not run by the tests, and readers see why
    text: str
    printed: str | None  # the block of language `text` right behind it

    @property
    def runs_here(self) -> bool:
        return not self.title.startswith("needs ")


class ShellLine(NamedTuple):
    """A command line of a page and what the page says it prints."""

    fence: Fence
    text: str
    output: str

    def __str__(self) -> str:
        return f"{name_of(self.fence.page)}: {self.text}"

    @property
    def fails(self) -> bool:
        """Whether the page shows it as a mistake."""
        return self.output.startswith("rmt: ") and "\n" not in self.output


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> Iterator[Fence]:
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    for block, after in zip_longest(blocks, blocks[1:]):
        touches = after is not None and not text[block.end() : after.start()].strip()
        printed = after[3] if touches and after[1] == "text" else None
        line = text.count("\n", 0, block.start()) + 1
        yield Fence(page, line, block[1], block[2] or "", block[3], printed)


def shell_lines(page: Path) -> Iterator[ShellLine]:
    """The command lines of a page: behind prompts in console blocks, all lines of bash blocks."""
    for fence in fences(page):
        text = fence.text.replace("\\\n", " ")
        if fence.language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield ShellLine(fence, line, output.strip())
        if fence.language == "bash":
            for line in filter(None, map(str.strip, text.splitlines())):
                yield ShellLine(fence, line, "")


def invocations(line: str) -> Iterator[list[str]]:
    """The arguments of every `rmt` in a command line, also behind a pipe, torchrun or srun."""
    plain = re.sub(r"<\([^)]*\)", "PIPE", line)
    lexer = shlex.shlex(plain, posix=True, punctuation_chars="|;&")
    lexer.whitespace_split = True
    words, command = [*lexer, ";"], []
    for word in words:
        if word not in ("|", ";", "&&"):
            command.append(word)
            continue
        for program in ("rmt", "rmt.cli.main"):
            if program in command:
                yield command[command.index(program) + 1 :]
                break
        command = []


def inline_commands(page: Path) -> Iterator[list[str]]:
    """Commands with options in the sentences of a page, whole or not; `rmt train` alone is a name."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for span in INLINE.finditer(text):
        words = shlex.split(span[1].replace("'", " "))[1:]
        if not any(sign in span[1] for sign in PLACEHOLDERS) and any(word.startswith("--") for word in words):
            yield words


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Every link of a page to a file or a heading of the repository: path and anchor."""
    for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link[1].partition("#")
        yield path, anchor


def anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    titles = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    words = (re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", title)).strip().lower() for title in titles)
    return {re.sub(r"[\s]+", "-", word) for word in words}
