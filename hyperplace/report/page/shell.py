"""One HTML file around a body: our style and script inside it, and a policy that lets nothing else run or load.

The policy names the hashes of the two: a script that somebody smuggles into a name is not run, and nothing is fetched
from anywhere. What the script draws is data in a block of its own, which no browser executes.
"""

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = ("svg.js", "pace.js", "sync_pace.js", "tables.js", "network.js", "timelines.js", "what_if.js", "page.js")
STYLE = "page.css"


def page(
    title: str, body: str, data: Any = None, *, scripts: tuple[str, ...] = SCRIPTS, is_served: bool = False
) -> str:
    """Return the whole file; `data` is what its script draws. One that is served may ask its server for more."""
    style, script = _read(STYLE), "".join(map(_read, scripts))
    connect = "connect-src 'self'; " if is_served else ""
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        f"{connect}base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n"
        f'<script type="application/json" id="data">{json_block(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def json_block(data: Any) -> str:
    """Return data as JSON that can stand inside HTML: no text in it can end its block or begin another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return files("hyperplace.report.page").joinpath(name).read_text(encoding="utf-8")
