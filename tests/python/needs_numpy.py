"""Imported first: if this Python has no NumPy, the script runs under PG_JUDGE_PYTHON instead; without one it is skipped (77)."""
import os
import sys

try:
    import numpy  # noqa: F401
except ImportError:
    judge = os.environ.pop('PG_JUDGE_PYTHON', '')  # once
    if not os.path.exists(judge):
        print('needs NumPy, or PG_JUDGE_PYTHON')
        sys.exit(77)
    os.execv(judge, [judge, *sys.argv])
