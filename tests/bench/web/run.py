#!/usr/bin/env python3
"""usage: run.py WEB TOOLS [--megabytes N] [--large N] [--browser NAME]

Time and memory of the page beside the tool: "module." is taken from the names of a file of 500 megabytes, and of one of 3,000. Judged: at
most 3 times the tool's time, the faster of two runs each, and 300 MB more than before the file was given."""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here.parents[1] / 'web')]
import run as page  # noqa: E402
from browser import Browser  # noqa: E402

TIMES, MEMORY = 3, 300 << 20


def seconds_of_tool(tools, big, folder):
    """The faster of two: the first one reads the disk."""
    best = float('inf')
    for _ in range(2):
        start = time.monotonic()
        subprocess.run([tools / 'pgunwrap', '-f', big, folder / 'native.safetensors'], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.monotonic() - start)
    return best


def unwrap_in_page(b, url, big, watch=False):
    """Seconds, and the bytes that all processes of the browser took at most beyond those before the file was given."""
    page.open_page(b, url)
    before, peak, done = b.memory(), 0, threading.Event()

    def look():
        nonlocal peak
        while not done.wait(.3):
            peak = max(peak, b.memory() - before)
    watcher = threading.Thread(target=look)
    page.choose(b, big)
    if watch:
        watcher.start()
    start = time.monotonic()
    page.press(b, '#proposals button')
    page.answered(b, 900)
    seconds = time.monotonic() - start
    done.set()
    if watch:
        watcher.join()
    if 'checksums equal' not in page.text(b, 'text'):
        raise SystemExit(f'{b.name}: {page.text(b, "failure")}')
    return seconds, peak


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('web', type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('tools', type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('--megabytes', type=int, default=500)
    p.add_argument('--large', type=int, default=3000)
    p.add_argument('--browser', choices=Browser.NAMES)
    a = p.parse_args()
    browsers = [n for n in Browser.NAMES if Browser.program(n) and a.browser in (None, n)]
    if not browsers:
        return 77
    url, bad = page.serve(a.web), 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as d:
        d = pathlib.Path(d)
        page.write_big(d / 'big.safetensors', a.megabytes * 10**6)
        tool = seconds_of_tool(a.tools, d / 'big.safetensors', d)
        print(f'pgunwrap  {a.megabytes} MB  {tool:.2f} s', flush=True)
        for name in browsers:
            with Browser(name, d) as b:
                seconds = min(unwrap_in_page(b, url, d / 'big.safetensors')[0] for _ in range(2))
            bad += seconds > TIMES * tool
            print(f'{name:9} {a.megabytes} MB  {seconds:.2f} s  {seconds / tool:.1f} times the tool', flush=True)
        (d / 'big.safetensors').unlink()
        (d / 'native.safetensors').unlink()
        page.write_big(d / 'large.safetensors', a.large * 10**6)
        for name in browsers:
            with Browser(name, d) as b:
                seconds, peak = unwrap_in_page(b, url, d / 'large.safetensors', watch=True)
            bad += peak > MEMORY
            print(f'{name:9} {a.large} MB  {seconds:.1f} s  {peak / 10**6:.0f} MB of memory', flush=True)
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
