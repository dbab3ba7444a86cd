"""Values put into a page without a way out of their place: JSON inside a script element, text inside a figure."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'"}


def json_script(name: str, value: Any) -> Markup:
    r"""A script element `name` that holds `value` as JSON and runs nothing; `json.loads` of its text gives `value` back.

    Every `<`, `>`, `&` and `'` is written as a JSON escape, so no text can end the element, and everything beyond ASCII
    too, so no encoding can spoil it. NaN and infinity are no JSON: ValueError.

    >>> json_script("data", "</script>")
    Markup('<script type="application/json" id="data">"\\u003c/script\\u003e"</script>')
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, Markup(text))


def figure_text(text: str) -> str:
    """`text` as plotly shows it literally: plotly reads a small HTML and, in hover texts, `%{...}`.

    >>> figure_text("<b>%{x}</b>")
    '&lt;b&gt;&#37;{x}&lt;/b&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "&#37;{")
