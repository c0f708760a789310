#!/usr/bin/env python3
"""usage: page.py FOLDER TESTDATA

The ```pycon blocks of the manual page pg-python print what the page shows. Runs under PG_JUDGE_PYTHON if this Python has no NumPy; without
one it is skipped (77). notebook_keras.py and notebook_torch.py run the ```python blocks."""
import doctest
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import needs_numpy  # noqa: E402, F401

sys.path[:0] = [sys.argv[1], str(pathlib.Path(__file__).resolve().parents[1])]
from doc_files import lay_out  # noqa: E402
from notebook_page import PAGE, page_blocks  # noqa: E402

testdata = pathlib.Path(sys.argv[2]).resolve()
blocks = page_blocks('pycon')
assert blocks
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    lay_out(testdata, folder)
    test = doctest.DocTestParser().get_doctest('\n'.join(blocks), {}, PAGE.name, str(PAGE), 0)
    failed, n = doctest.DocTestRunner().run(test)
print(f'{n} examples, {failed} failed')
sys.exit(bool(failed))
