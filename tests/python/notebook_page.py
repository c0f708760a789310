"""The blocks of the manual page pg-python."""
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / 'tools/man/pg-python.7.md'


def page_blocks(kind, page=PAGE):
    """Those of one kind, in order: "python", or "pycon" with prompts and results."""
    return re.findall(r'^```%s\n(.*?)^```' % kind, page.read_text(), re.M | re.S)
