"""Tables as text for a terminal and as HTML for a notebook."""
from __future__ import annotations

import html
import unicodedata
from typing import List, Sequence


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shown(text: str) -> str:
    """Names from files without what would disturb a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def count(n: int, word: str = "") -> str:
    """1 tensor; 1,004 tensors."""
    return "{:,}{}{}".format(n, word and " " + word, "s" if word and n != 1 else "")


def size(n: float) -> str:
    """In the units of the tools: 21.1 kB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            break
        n, unit = n / 1000, "TB"
    return "%d B" % n if unit == "B" else "%.3g %s" % (n, unit)


class Table:
    """Rows of texts below a heading; `right`: columns of numbers."""

    def __init__(self, heading: Sequence[str], right: Sequence[int] = ()) -> None:
        self.heading, self.right = list(heading), set(right)
        self.rows: List[List[str]] = []

    def add(self, *cells: object) -> None:
        """Appends a row."""
        self.rows.append([shown(str(c)) for c in cells])

    def text(self, indent: str = "  ", most: int = 60) -> str:
        """The table with at most so many rows."""
        rows = self.rows if len(self.rows) <= most else self.rows[:most]
        lines = [self.heading] + rows
        widths = [max(_width(line[i]) for line in lines) for i in range(len(self.heading))]
        out = []
        for line in lines:
            cells = [" " * (w - _width(c)) + c if i in self.right else c + " " * (w - _width(c))
                     for i, (c, w) in enumerate(zip(line, widths))]
            out.append((indent + "  ".join(cells)).rstrip())
        if len(rows) < len(self.rows):
            out.append("%s... %s more" % (indent, count(len(self.rows) - len(rows))))
        return "\n".join(out)

    def html(self) -> str:
        """The table as HTML, names escaped."""
        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>%s</tr>" % "".join("<%s style=\"text-align:%s\">%s</%s>" % (
                tag, "right" if i in self.right else "left", html.escape(c), tag) for i, c in enumerate(cells))
        return "<table>%s%s</table>" % (line(self.heading, "th"), "".join(line(r, "td") for r in self.rows))


def page(lines: Sequence[str], table: Table) -> str:
    """Paragraphs and a table, for _repr_html_."""
    return "".join("<p style=\"white-space:pre-wrap\">%s</p>" % html.escape(shown(x)) for x in lines) + table.html()
