"""What the site shows beside the pages of this folder, and how; MkDocs calls the functions with `on_`.

Results, benchmarks, examples and the project's own pages lie outside of docs/: they are taken as they are,
and links between files of the repository become links between pages. The command reference and tables of
settings are made from the code, the tour from its notebook. A console block is copied without its output.
"""

from __future__ import annotations

import html
import json
import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from reference import command_page, settings_table

ROOT = Path(__file__).parent.parent
FOLDERS = {"Results": "results", "Benchmarks": "benchmarks"}  # section of the navigation: its pages
TAKEN = ("results/*.*", "benchmarks/*.*", "examples/*.*", "C*.md", "SECURITY.md", "LICENSE")
NOTEBOOK = "examples/tour.ipynb"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")
SETTINGS = re.compile(r"^<!-- settings (\S+) -->$", re.MULTILINE)
CONSOLE = re.compile(r'(<div class="[^"]*\blanguage-console\b[^"]*")(>.*?<code>(.*?)</code>)', re.DOTALL)


def on_config(config: Any) -> Any:
    """Fill the sections of results and benchmarks in the navigation with the pages that there are."""
    for section in config.nav:
        for title, folder in FOLDERS.items():
            if title in section:
                section[title] += [f"{folder}/{path.name}" for path in sorted((ROOT / folder).glob("*.md"))]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside of docs/, and what is made."""
    for pattern in TAKEN:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, "commands.md", content=command_page()))
    files.append(File.generated(config, "tour.md", content=notebook_page(ROOT / NOTEBOOK)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files as links between pages; tables of settings where a comment asks for one."""
    here = page.file.src_uri
    markdown = LINK.sub(lambda link: site_link(link[1], here), markdown)
    return SETTINGS.sub(lambda asked: settings_table(asked[1]), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """The commands of a console block as what its button copies."""
    return CONSOLE.sub(with_commands, content)


def site_link(target: str, here: str) -> str:
    """A link of a file of the repository, as it is on the site, where docs/ is the root."""
    folder = os.path.dirname(repository_path(here))
    path = os.path.normpath(os.path.join(folder, target)).replace(os.sep, "/")
    return os.path.relpath(path.removeprefix("docs/"), os.path.dirname(here) or ".").replace(os.sep, "/")


def repository_path(page: str) -> str:
    """Where the source of a page lies in the repository."""
    if page == "tour.md":
        return NOTEBOOK
    return page if (ROOT / page).exists() else f"docs/{page}"


def with_commands(block: re.Match[str]) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", "", block[3]))
    return f'{block[1]} data-copy="{html.escape(commands(text), quote=True)}"{block[2]}'


def commands(text: str) -> str:
    """The commands of a console block: lines behind a prompt, and those that go on with them."""
    lines, goes_on = [], False
    for line in text.splitlines():
        if goes_on or line.startswith("$ "):
            lines.append(line if goes_on else line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(lines)


def notebook_page(path: Path) -> str:
    """A notebook as a page: its texts, and its code in blocks."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [("".join(cell["source"]), cell["cell_type"]) for cell in cells]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in parts)
