"""A page that needs nothing else: its style, its program and its data in one file of HTML."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"


def assemble(name: str, scripts: Sequence[str], data: dict[str, Any]) -> str:
    """The page NAME.html with NAME.css, its program and the data, which is nothing but data.

    Only this style and this program are allowed to work, by their checksums: were a token ever taken for
    markup, it still could not run.
    """
    style = (PAGE / f"{name}.css").read_text(encoding="utf-8")
    script = "\n".join((PAGE / script).read_text(encoding="utf-8") for script in scripts)
    allowed = f"style-src {checksum(style)}; script-src {checksum(script)}"
    parts = {
        "policy": f"default-src 'none'; img-src data:; {allowed}",
        "style": style,
        "script": script,
        "data": harmless(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)),
    }
    template = (PAGE / f"{name}.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def checksum(text: str) -> str:
    """What a Content-Security-Policy calls an inline block."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def harmless(text: str) -> str:
    """JSON that cannot end the element it stands in, nor start another, whatever its strings hold."""
    escapes = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
    lone = {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}  # half a character is no text
    return text.translate(escapes | lone)
