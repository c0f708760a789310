#!/usr/bin/env python3
"""usage: run.py WEB TOOLS [--megabytes N] [--large N] [--rounds N] [--browser NAME]

Time and memory of the page beside the tool: "module." is taken from the names of a file of 500 megabytes, by the tool and by the page in
each browser in turn, and of one of 3,000 in each browser. Prints the text of results.md; judges nothing."""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here.parents[1] / 'web')]
sys.dont_write_bytecode = True
import run as page  # noqa: E402
from browser import Browser  # noqa: E402


def tool_takes(tools, big, folder):
    """Seconds, and those of the processor."""
    def spent():
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime
    start, before = time.monotonic(), spent()
    subprocess.run([tools / 'pgunwrap', '-f', big, folder / 'native.safetensors'], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start, spent() - before


def page_takes(b, url, big, seconds=1800):
    """The same of the page, from the button to the proof."""
    page.open_page(b, url)
    page.choose(b, big)
    start, before = time.monotonic(), b.cpu_seconds()
    page.press(b, '#proposals button')
    page.answered(b, seconds)
    took = time.monotonic() - start, b.cpu_seconds() - before
    if 'checksums equal' not in page.text(b, 'text'):
        raise SystemExit(f'{b.name}: {page.text(b, "failure")}')
    return took


def memory_of_page(b, url, big):
    """Seconds, and the bytes that all processes of the browser took at most beyond those before the file was given."""
    page.open_page(b, url)
    before, peak, done = b.memory(), 0, threading.Event()

    def look():
        nonlocal peak
        while not done.wait(.3):
            peak = max(peak, b.memory() - before)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        return page_takes(b, url, big)[0], peak
    finally:
        done.set()
        watcher.join()


def machine():
    cpu = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text())
    return f'{cpu.group(1) if cpu else "?"}, {os.cpu_count()} cores, {time.strftime("%F")}'


def load():
    return f'{os.getloadavg()[0]:.1f}'


def version(name):
    return subprocess.run([Browser.program(name), '--version'], capture_output=True, text=True).stdout.split(' built')[0].strip()


def rounds_of(a, browsers, url, folder):
    """A row for each browser: least seconds and processor seconds of the rounds, the tool's of the same rounds."""
    big = folder / 'big.safetensors'
    page.write_big(big, a.megabytes * 10**6)
    took, loads = {name: [] for name in ['tool', *browsers]}, []
    for _ in range(a.rounds):
        os.sync()  # nobody pays for what another one wrote
        took['tool'].append(tool_takes(a.tools, big, folder))
        for name in browsers:
            with Browser(name, folder / 'profile') as b:
                os.sync()
                took[name].append(page_takes(b, url, big))
        loads.append(load())
    big.unlink()
    (folder / 'native.safetensors').unlink()
    return {name: [min(t[i] for t in times) for i in (0, 1)] for name, times in took.items()}, loads


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('web', type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('tools', type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('--megabytes', type=int, default=500)
    p.add_argument('--large', type=int, default=3000)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--browser', choices=Browser.NAMES)
    a = p.parse_args()
    browsers = [n for n in Browser.NAMES if Browser.program(n) and a.browser in (None, n)]
    if not browsers:
        return 77
    url = page.serve(a.web)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as d:
        d = pathlib.Path(d)
        least, loads = rounds_of(a, browsers, url, d)
        print(f'{machine()}; {", ".join(map(version, browsers))}; least of {a.rounds} rounds; load after each: {", ".join(loads)}.\n')
        print(f'| {a.megabytes} MB | s | / pgunwrap | processor, s | {a.large} MB: s | MB of memory |\n|---|---:|---:|---:|---:|---:|')
        print(f'| pgunwrap | {least["tool"][0]:.2f} | | {least["tool"][1]:.2f} | | |', flush=True)
        page.write_big(d / 'large.safetensors', a.large * 10**6)
        for name in browsers:
            with Browser(name, d / 'profile') as b:
                seconds, peak = memory_of_page(b, url, d / 'large.safetensors')
            s, cpu = least[name]
            print(f'| {name} | {s:.2f} | {s / least["tool"][0]:.2f} | {cpu:.2f} | {seconds:.1f} | {peak / 10**6:.0f} |', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
