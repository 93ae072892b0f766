"""README and documentation as what they promise: code blocks, command lines, links."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
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
INLINE = re.compile(r"(?<!`)`((?:rmt|make|pip|python3?) (?:[^`\n]|\n(?!\n))+)`(?!`)")
LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*?)\s*$", re.MULTILINE)
PLACEHOLDERS = ("…", "CMD", "COMMAND", "|")  # a text in a sentence that is no whole command line
NEEDS_EXTRA = re.compile(r"needs the extra (\w+)")
PACKAGES = {"export": ("onnx", "onnxscript", "onnxruntime")}  # what an extra brings, where a page needs it


class Fence(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str  # "needs a GPU": the tests do not run the block, and readers see why
    text: str
    printed: str | None  # the block of language `text` right behind it

    @property
    def runs_here(self) -> bool:
        if extra := NEEDS_EXTRA.fullmatch(self.title):
            return all(map(find_spec, PACKAGES[extra[1]]))
        return not self.title.startswith("needs ")

    def run(self, module: ModuleType) -> str:
        """What a block of Python prints, run in a module that the blocks of its page share."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * self.line + self.text, str(self.page), "exec"), vars(module))
        return printed.getvalue()


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
    """The command lines of a page."""
    for fence in fences(page):
        yield from fence_lines(fence)


def fence_lines(fence: Fence) -> Iterator[ShellLine]:
    """The command lines of a block: behind prompts where it is a console, all lines of bash."""
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


def inline_lines(page: Path) -> Iterator[str]:
    """Command lines in the sentences of a page, whole or not."""
    for span in INLINE.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not any(sign in span[1] for sign in PLACEHOLDERS):
            yield " ".join(span[1].split())


def inline_commands(page: Path) -> Iterator[list[str]]:
    """Commands of rmt with options in the sentences of a page; `rmt train` alone is a name."""
    for line in inline_lines(page):
        program, *words = shlex.split(line.replace("'", " "))
        if program == "rmt" and any(word.startswith("--") for word in words):
            yield words


def words_of(page: Path, program: str) -> Iterator[list[str]]:
    """The words of every line that starts with a program, in blocks and in sentences; comments left out."""
    for line in (*(line.text for line in shell_lines(page)), *inline_lines(page)):
        if line.startswith(program):
            yield shlex.split(line, comments=True)


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
