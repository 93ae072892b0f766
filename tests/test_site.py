"""The site: it builds strictly, every page can be reached, what people look for is found and copied well."""

import html
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

import rmt
from rmt.cli.help import page as help_page
from tests.pages import DOCS, ROOT

pytest.importorskip("mkdocs", reason="the extra docs: pip install 'recurrent-memory[docs]'")
pytest.importorskip("mkdocstrings", reason="the extra docs: pip install 'recurrent-memory[docs]'")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return importlib.import_module("reference")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*command, "-d", str(folder)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_reference_has_every_option_of_every_command_and_no_other(reference):
    from rmt.cli.front import FRONT
    from rmt.cli.main import COMMANDS

    for name in COMMANDS:
        for command in reference.commands_of(name):
            section = reference.command_section(command, name)
            rows = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
            told = help_page(command, FRONT)
            assert set(spellings(" ".join(rows))) == set(spellings(options_of(told))), command.call
            texts = " ".join(told.split())
            assert all(" ".join(leaf.help.split()) in texts for leaf in (*command.leaves(), *FRONT))


def spellings(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])--[a-z][\w.]*", text)


def options_of(told: str) -> str:
    """The options that a page of help describes: what stands at the start of its lines."""
    short = re.findall(r"^  (?:-\w, )?(--[\w.]+)", told, re.MULTILINE)
    long = [f"--{name}" for name in re.findall(r"\((?!default)([a-z_]+(?:\.\w+)+|preset)\)", told)]
    return " ".join(short + long)


def test_a_table_of_settings_has_every_field(reference):
    from rmt.config import leaves
    from rmt.core.config import ModelConfig

    table = reference.settings_table("rmt.core.config:ModelConfig")
    assert re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE) == [
        leaf.name for leaf in leaves(ModelConfig)
    ]


def test_commands_are_copied_without_prompts_and_output(hooks):
    text = "$ rmt train copy \\\n    --segments 3\nstep 100\n$ rmt runs # all\nruns/a  0.99\n"
    assert hooks.commands(text) == "rmt train copy \\\n    --segments 3\nrmt runs # all"
    code = '<pre><code><span class="gp">$ </span>rmt a "b"\nout\n</code></pre>'
    block = f'<div class="language-console highlight">{code}</div>'
    assert 'data-copy="rmt a &quot;b&quot;">' in hooks.on_page_content(block)


@pytest.mark.parametrize(
    ("target", "here", "link"),
    [
        ("../results/algorithmic.md", "index.md", "results/algorithmic.md"),
        ("../docs/streaming.md", "results/memory-qa.md", "../streaming.md"),
        ("docs/design.md", "CONTRIBUTING.md", "design.md"),
        ("algorithmic.jsonl", "results/algorithmic.md", "algorithmic.jsonl"),
        ("../model.md", "api/core.md", "../model.md"),
        ("../docs/path.md", "tour.md", "path.md"),
    ],
)
def test_links_between_files_become_links_between_pages(hooks, target, here, link):
    assert hooks.site_link(target, here) == link


@pytest.mark.slow
def test_every_page_can_be_reached_from_the_start(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob("index.html")}
    seen, waiting = set(), ["index.html"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            waiting += [link for link in links_of(site, page) if link in pages]
    assert pages - seen == set()
    assert {"results/algorithmic/index.html", "commands/index.html", "api/index.html"} <= seen


def links_of(site: Path, page: str) -> list[str]:
    """The pages that a page links to."""
    found = re.findall(r'href="([^"#?:]+)[^":]*"', (site / page).read_text())
    resolved = [os.path.normpath(os.path.join(os.path.dirname(page), html.unescape(link))) for link in found]
    return [path if path.endswith(".html") else f"{path}/index.html".removeprefix("./") for path in resolved]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in rmt.__all__ if name not in ("presets", "compat")])
def test_searching_a_public_name_finds_it(site, name):
    index = json.loads((site / "search" / "search_index.json").read_text())
    words = re.compile(index["config"]["separator"])
    titles = {
        entry["location"] for entry in index["docs"] if name in words.split(html.unescape(entry["title"]))
    }
    assert any("api/" in location for location in titles) or name.endswith("Config")
    assert any(name in entry["text"] or name in entry["title"] for entry in index["docs"])


@pytest.mark.slow
def test_a_browser_copies_a_command_and_finds_add_memory(site):
    chromium = os.environ.get("RMT_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium; name one in RMT_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    handler = partial(QuietHandler, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        with playwright.sync_playwright() as browsers:
            browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
            page = context.new_page()
            page.goto(address)
            page.locator(".language-console button[data-clipboard-target]").first.click(force=True)
            assert page.evaluate("navigator.clipboard.readText()") == (
                "rmt train copy --segments 3 --length 8 --target 0.99"
            )
            page.keyboard.press("s")
            page.locator("input.md-search__input").press_sequentially("add_memory")
            first = page.locator(".md-search-result__link").first
            first.wait_for(state="visible")
            assert any(
                "add_memory" in text for text in page.locator(".md-search-result__link").all_inner_texts()
            )
            browser.close()
    finally:
        server.shutdown()
        server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    """A file server that says nothing."""

    def log_message(self, *_: object) -> None:
        pass
