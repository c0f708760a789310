#!/usr/bin/env python3
"""usage: run.py WEB TOOLS TESTDATA [--browser NAME] [--only PART] [--pictures FOLDER] [--axe axe.min.js]

The page in real browsers, beside the tools of this machine. WEB is build/web, TOOLS build/tools. For each browser:
  page     a person's way: files are chosen, buttons pressed, outputs downloaded and compared with the tool's; cancelling, keyboard, Chinese,
           nothing in the console; with --axe, what axe-core finds; with --pictures (Chromium), the pictures of the manual
  file     the page opened as a file
  reading  files that are read while something is in the way
  golden   commands on files of testdata: status, both outputs and every byte written as the tool's
  hostile  every case of tests/hostile: the tool's answer, within 5 s or three times its time; afterwards the page is alive
Exit status 77 where no browser is."""
import argparse
import functools
import hashlib
import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent), str(here.parent / 'hostile'), str(here.parent / 'hostile/gen')]
sys.dont_write_bytecode = True
from browser import Browser, Lost  # noqa: E402

bad = 0
SECONDS = 5
TEMPLATE = 'testdata/files/keras-2.2.4/cnn4-g2'


def judge(good, text):
    global bad
    bad += not good
    print(f'{"ok" if good else "FAIL":5}{text}', flush=True)


class Handler(http.server.SimpleHTTPRequestHandler):
    """/ is the page, /at/FOLDER... a folder of this machine."""
    def __init__(self, *args, web, **kw):
        self.web = web
        super().__init__(*args, directory=web, **kw)

    def translate_path(self, path):
        if path.startswith('/at/'):
            self.directory = '/'
            return super().translate_path(path[3:])
        self.directory = self.web
        return super().translate_path(path)

    def log_message(self, *_):
        pass


def serve(web):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Handler, web=str(web)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f'http://localhost:{server.server_port}/'


HELPER = '''(async (worker) => {
    const {Worker} = window;
    if (worker)
        window.Worker = class extends Worker {
            constructor() {
                super(worker, {type: 'module'});
            }
        };
    const {Engine} = await import('/engine.js');
    const engine = await Engine.load();
    const hex = (bytes) => [...new Uint8Array(bytes)].map((x) => x.toString(16).padStart(2, '0')).join('');
    window.pg_run = async (args, files) => {
        const given = await Promise.all(files.map(async ([path, url]) => ({path, file: await (await fetch(url)).blob()})));
        const start = performance.now(), late = new Promise((resolve) => setTimeout(resolve, 120000, {crash: 'no answer in 120 s'}));
        const r = await Promise.race([engine.run(args, given), late]), seconds = (performance.now() - start) / 1000;
        if (r.crash)
            engine.cancel();
        const outputs = {};
        for (const {path, blob} of r.files ?? [])
            outputs[path] = hex(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
        return {status: r.status, out: r.out, err: r.err, crash: r.crash, outputs, seconds};
    };
    return true;
})'''


def help_page(b, url, patch=None):
    """window.pg_run for Pair, by the page's own engine; patch names a change of tests/web/patch.js."""
    open_page(b, url)
    worker = patch and f'/at{urlquote(str(here))}/patch_worker.js?{patch}'
    b.js(f'{HELPER}({json.dumps(worker)})')


def files_below(root):
    """{name: path} of the regular files that a browser would hand over; None if some are links or pipes."""
    paths = [root] if root.is_file() and not root.is_symlink() else sorted(root.rglob('*'))
    if any(p.is_symlink() or not (p.is_file() or p.is_dir()) for p in paths):
        return None
    return {str(p.relative_to(root.parent)): p for p in paths if p.is_file()}


class Pair:
    """One command in the page and by the tool of this machine, on copies of the same files."""
    def __init__(self, b, tools):
        self.b, self.tools = b, tools

    def page(self, args, files):
        given = [[name, '/at' + urlquote(str(path))] for name, path in files.items()]
        return self.b.js(f'window.pg_run({json.dumps(args)}, {json.dumps(given)})')

    def native(self, args, files):
        with tempfile.TemporaryDirectory() as d:
            for name, path in files.items():
                (pathlib.Path(d) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, pathlib.Path(d) / name)
            start = time.monotonic()
            r = subprocess.run([str(self.tools / args[0]), *args[1:]], cwd=d, capture_output=True, timeout=120,
                               env={'LC_ALL': 'C.UTF-8', 'TMPDIR': d, 'PATH': '/usr/bin:/bin'})
            seconds = time.monotonic() - start
            found = {str(p.relative_to(d)): p for p in pathlib.Path(d).rglob('*') if p.is_file()}
            outputs = {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in found.items() if n not in files}
        return {'status': r.returncode, 'out': r.stdout.decode(errors='replace'), 'err': r.stderr.decode(errors='replace'), 'outputs': outputs,
                'seconds': seconds}

    def differs(self, args, files):
        """What the page does otherwise: '' if nothing; and the page's answer."""
        got, want = self.page(args, files), self.native(args, files)
        got['tool_seconds'] = want['seconds']
        if got.get('crash'):
            return f'crashed: {got["crash"]}', got
        for key in ('status', 'err', 'out', 'outputs'):
            if key == 'outputs' and want['status'] != 0:
                continue
            if got[key] != want[key]:
                return f'{key}: {str(got[key])[:300]!r} instead of {str(want[key])[:300]!r}', got
        return '', got


def urlquote(path):
    import urllib.parse
    return urllib.parse.quote(path)


# ---- golden ----

def golden_commands(testdata):
    """(arguments, files) of all that is compared."""
    manifest = json.loads((testdata / 'manifest.json').read_text())
    for entry in manifest['files']:
        path = testdata / entry['file']
        files, end = {path.name: path}, ''.join(path.suffixes[-2:]) if path.name.endswith('.weights.h5') else path.suffix
        if entry['expected'] != 'wrapper':
            yield ['pginfo', path.name], files
            continue
        yield ['pgunwrap', path.name, 'out' + (end if end not in ('.pt', '.tar', '.pth') else '.safetensors')], files
        template = path.parent / 'template.json'
        if template.exists():
            yield ['pgunwrap', '--like', 'template.json', path.name, 'out' + end], {**files, 'template.json': template}
    wrapper = testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5'
    single = testdata / 'files/keras-2.2.4/cnn4-g2/template_weights.h5'
    one = {single.name: single}
    for to in ('out.safetensors', 'out.npz', 'out.keras', 'out.weights.h5', 'out'):
        yield ['pgconvert', single.name, to] + (['--to', 'npy'] if to == 'out' else []), one
    yield ['pgsplit', '--max-shard-size', '2kB', single.name, 'parts'], one
    yield ['pgcheck', single.name], one
    yield ['pgcheck', wrapper.name], {wrapper.name: wrapper}
    yield ['pgdiff', wrapper.name, single.name], {**one, wrapper.name: wrapper}
    yield ['pgwrap', '--gpus', '2', single.name, 'out.h5'], one
    yield ['pginfo', '--html', 'out.html', wrapper.name], {wrapper.name: wrapper}
    for folder in sorted((testdata / 'modern').iterdir()):
        files = files_below(folder) if folder.is_dir() else None
        if files:
            yield ['pginfo', '--json', folder.name], files
            yield ['pgjoin', folder.name, 'out.safetensors'], files


def test_golden(b, a, url):
    pair, n, wrong = Pair(b, a.tools), 0, []
    for args, files in golden_commands(a.testdata):
        try:
            why, _ = pair.differs(args, files)
        except (Lost, subprocess.TimeoutExpired) as e:
            why = str(e)
        n += 1
        if why:
            wrong.append(f'{" ".join(args)} ({next(iter(files.values()))}): {why}')
    for line in wrong[:20]:
        print(f'     {line}')
    judge(not wrong, f'golden: {n} commands, {len(wrong)} unlike the tool')
    model = a.testdata / 'files/keras-2.2.4/cnn4-g2/template_model.h5'
    for args in ['pgcheck', '--device', 'cpu:0', model.name], ['pgconvert', model.name, 'out.onnx']:
        got = pair.page(args, {model.name: model})
        judge(got['status'] == 3 and got['err'].count('\n') == 1 and 'trainer' in got['err'] and not got['outputs'],
              f'{" ".join(args)}: {got["err"].strip()}')


# ---- hostile ----

def hostile_cases(testdata, out):
    """(case, path of its file, files of its folder)."""
    spec = importlib.util.spec_from_file_location('hostile', here.parent / 'hostile/run.py')
    hostile = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hostile)
    for c in hostile.corpus(str(testdata), str(out)):
        path = out / c['path']
        files = files_below(path.parent) if path.exists() else None
        if files:
            yield c, str(path.relative_to(path.parent.parent)), files


def test_hostile(b, a, url):
    pair, n, wrong, slow = Pair(b, a.tools), 0, [], (0, '')
    with tempfile.TemporaryDirectory() as d:
        for c, name, files in hostile_cases(a.testdata, pathlib.Path(d)):
            for args in (['pginfo', '--stats', name], ['pgunwrap', name, 'out' + ''.join(pathlib.Path(name).suffixes)]):
                n += 1
                why, got = pair.differs(args, files)
                slow = max(slow, (got['seconds'], ' '.join(args)))
                lines = [x for x in (got.get('err') or '').splitlines() if not x.startswith((' ', 'try: '))]
                if got.get('status') != 0 and len(lines) != 1:
                    why = why or f'{len(lines)} lines: {lines[:3]}'
                if got['seconds'] > max(SECONDS, 3 * got['tool_seconds']):  # on a busy machine, all take longer
                    why = why or f'{got["seconds"]:.1f} s'
                if why:
                    wrong.append(f'{" ".join(args)}: {why}')
                if got.get('crash'):
                    print(f'     {wrong[-1]}, after {n} commands', flush=True)
    for line in wrong[:30]:
        print(f'     {line}')
    judge(not wrong, f'hostile: {n} commands, {len(wrong)} unlike the tool, the slowest took {slow[0]:.1f} s: {slow[1]}')
    choose(b, a.testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5')
    judge('parallel wrapper' in text(b, 'verdict'), 'the page is alive')


# ---- reading ----

def test_reading(b, a, url):
    """Reading ahead that stalls or fails gives way."""
    with tempfile.TemporaryDirectory() as d:
        big = pathlib.Path(d) / 'big.safetensors'
        write_big(big, 32 << 20)
        for what in ('stall', 'fail'):
            help_page(b, url, what)
            why, got = Pair(b, a.tools).differs(['pgunwrap', big.name, 'out.safetensors'], {big.name: big})
            judge(not why, f'reading ahead, {what}: as the tool {why}')
            judge(what != 'stall' or got['seconds'] > 5, f'it was waited for {got["seconds"]:.1f} s')


# ---- the page ----

def text(b, element):
    return b.js(f'document.getElementById("{element}").textContent')


def open_page(b, url, fragment=''):
    b.open('about:blank')
    b.open(url + fragment)
    b.wait('document.getElementById("version")?.textContent')


def choose(b, *paths):
    b.set_files('files', paths)
    answered(b)


def answered(b, seconds=60):
    b.wait('!document.getElementById("answer").hidden && document.getElementById("busy").hidden', seconds)


def press(b, selector):
    b.js(f'document.querySelector({json.dumps(selector)}).click()')


def test_page(b, a, url):
    tools, data = a.tools, a.testdata
    wrapper = data / 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5'
    unsettled = data / 'files/keras-2.2.4/unet-g4'
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)

        def native(*args):
            return subprocess.run([str(tools / args[0]), *map(str, args[1:])], cwd=d, capture_output=True, text=True)

        open_page(b, url)
        a.picture(b, 'empty')
        a.axe_finds(b, 'empty')
        choose(b, wrapper)
        judge('parallel wrapper' in text(b, 'verdict') and '2 replicas' in text(b, 'reason'), 'a wrapper is seen as one')
        b.wait('document.querySelector("#report div")?.shadowRoot.querySelector("svg, table")')
        judge(True, 'the report with histograms is there')
        a.picture(b, 'verdict', height=1400)
        a.axe_finds(b, 'verdict')
        press(b, '#proposals button')
        answered(b)
        native('pgunwrap', wrapper, 'single.h5')
        judge(text(b, 'text').startswith('single.h5: template "model_1" of 2 replicas') and '8/8 checksums equal' in text(b, 'text'), 'the proof is shown')
        a.picture(b, 'done')
        a.axe_finds(b, 'done')
        press(b, '#outputs a')
        judge(b.downloaded('single.h5').read_bytes() == (d / 'single.h5').read_bytes(), 'the download is what pgunwrap writes')

        open_page(b, url)
        choose(b, unsettled / 'wrapper_weights.h5')
        judge(b.js('!document.getElementById("model").hidden'), 'a model is asked for where the file does not settle the order')
        b.js('document.getElementById("command").value = "pgunwrap wrapper_weights.h5 single.h5"')
        press(b, '#go')
        answered(b)
        shutil.copy(unsettled / 'wrapper_weights.h5', d)
        want = native('pgunwrap', 'wrapper_weights.h5', 'like.h5').stderr
        judge(text(b, 'failure').strip() == want.strip().replace('like.h5', 'single.h5'), 'a refusal is worded as the tool words it')
        a.picture(b, 'refused')
        a.axe_finds(b, 'refused')
        b.set_files('model-file', [data / 'files/keras-2.2.4/cnn4-g2/template.json'])
        answered(b)
        judge(text(b, 'failure') and b.js('!document.getElementById("model").hidden'), 'a wrong model is refused, and another may be given')
        b.set_files('model-file', [unsettled / 'template.json'])
        b.wait('document.querySelector("#outputs a")')
        (b.downloads / 'single.h5').unlink(missing_ok=True)
        press(b, '#outputs a')
        native('pgunwrap', '--like', unsettled / 'template.json', 'wrapper_weights.h5', 'like.h5')
        judge(b.downloaded('single.h5').read_bytes() == (d / 'like.h5').read_bytes(), 'with the model it is written')

        open_page(b, url)
        choose(b, unsettled / 'template.json', unsettled / 'wrapper_weights.h5')
        judge('template.json' in text(b, 'proposals') and 'wrapper' in text(b, 'verdict'), 'a model that is chosen with the file is used')
        judge(b.js('document.getElementById("command").value') in text(b, 'proposals'), 'by the command line, too')
        press(b, '#proposals button')
        b.wait('document.querySelector("#outputs a")')
        (b.downloads / 'single.h5').unlink(missing_ok=True)
        press(b, '#outputs a')
        judge(b.downloaded('single.h5').read_bytes() == (d / 'like.h5').read_bytes(), 'and gives the same file')
        for action, words in ('diff', 'OTHER'), ('check', '--model template.json'):
            press(b, f'#actions button:nth-child({6 if action == "diff" else 7})')
            judge(words in b.js('document.getElementById("command").value'), f'the model is what it is: {action}')
        open_page(b, url)
        choose(b, data / 'files/keras-2.2.4/cnn4-g2/template.json', unsettled / 'wrapper_weights.h5')
        press(b, '#proposals button')
        answered(b)
        judge(text(b, 'failure') and b.js('!document.getElementById("model").hidden'), 'if it is refused, another may be given')
        b.set_files('model-file', [unsettled / 'template.json'])
        b.wait('document.querySelector("#outputs a")')
        judge('template.json-2' not in text(b, 'list'), 'and takes its place')
        open_page(b, url)
        choose(b, unsettled / 'wrapper_weights.h5', wrapper.parent / 'template_weights.h5')
        judge('Several' in text(b, 'verdict'), 'of two files without a model one is to be chosen')

        open_page(b, url)
        choose(b, data / 'files/keras-2.2.4/cnn4-g2/template_weights.h5')
        press(b, '#proposals button')
        b.wait('document.querySelector("#outputs a")')
        press(b, '#outputs a')
        native('pgconvert', data / 'files/keras-2.2.4/cnn4-g2/template_weights.h5', 'converted.safetensors')
        judge(b.downloaded('converted.safetensors').read_bytes() == (d / 'converted.safetensors').read_bytes(), 'a plain file is offered to be converted')
        actions = []
        for k in range(b.js('document.querySelectorAll("#actions button").length')):
            press(b, f'#actions button:nth-child({k + 1})')
            actions.append(b.js('document.getElementById("command").value'))
            press(b, '#go')
            answered(b)
            judge('option' not in text(b, 'failure'), f'an action that the tool knows: {actions[-1]}')
        judge(len(actions) == 8, 'every tool is an action')

        for path, answer in (data / 'README.md', 'no checkpoint'), (data / 'extra/checkpoints/training_args.bin', 'does not support'):
            open_page(b, url)
            choose(b, path)
            judge(answer in text(b, 'verdict') and path.name in text(b, 'failure'), f'{path.name}: {answer}')
        open_page(b, url)
        big = d / 'big.safetensors'
        write_big(big, 200 << 20)
        choose(b, big)
        press(b, '#proposals button')
        b.set_files('files', [wrapper])
        answered(b)
        time.sleep(1)
        judge('parallel wrapper' in text(b, 'verdict') and not text(b, 'outputs'), 'a file that is chosen while another is repaired ends that')
        big.unlink()
        copy = d / 'copy.h5'
        shutil.copy(wrapper, copy)
        choose(b, copy)
        os.utime(copy, (1, 1))
        press(b, '#proposals button')
        answered(b)
        judge('choose it again' in text(b, 'failure') or text(b, 'outputs'), 'a file that was changed is to be chosen again, or right')

        open_page(b, url)
        choose(b, data / 'negative/truncated_half.h5')
        shutil.copy(data / 'negative/truncated_half.h5', d)
        judge(text(b, 'failure').strip() == native('pginfo', 'truncated_half.h5').stderr.strip(), 'damage is worded as the tool words it')

        open_page(b, url, '#zh,convert')
        judge(b.js('document.documentElement.lang') == 'zh' and '修复' in b.js('document.title'), 'Chinese')
        choose(b, wrapper)
        judge(b.js('document.getElementById("command").value').startswith('pgconvert '), 'a fragment selects the action')
        a.picture(b, 'chinese')
        a.axe_finds(b, 'Chinese')

        open_page(b, url)
        choose(b, wrapper)
        b.wait('document.activeElement.id === "answer"')
        for _ in range(12):
            b.key('Tab')
            if b.js('document.activeElement.matches("#proposals button")'):
                break
        b.key('Space')
        b.wait('document.querySelector("#outputs a")')
        judge(True, 'by keyboard alone')

        open_page(b, url.replace('localhost', 'plain.test'))
        choose(b, wrapper)
        press(b, '#proposals button')
        b.wait('document.querySelector("#outputs a")')
        (b.downloads / 'single.h5').unlink(missing_ok=True)
        press(b, '#outputs a')
        judge(b.downloaded('single.h5').read_bytes() == (d / 'single.h5').read_bytes(), 'without a private file system, too')

        if b.name == 'chromium':
            test_folder_and_place(b, a, url, d)
        big = d / 'big.safetensors'
        write_big(big, 400 << 20)
        open_page(b, url)
        choose(b, big)
        press(b, '#proposals button')
        b.wait('document.getElementById("progress").value > 0 && document.getElementById("percent").textContent')
        a.picture(b, 'busy')
        press(b, '#cancel')
        answered(b)
        judge('Cancelled' in text(b, 'verdict') and b.js('!document.querySelector("#outputs a")'), 'cancelled: nothing is there')
        choose(b, wrapper)
        judge('parallel wrapper' in text(b, 'verdict'), 'the page goes on after it')
        a.pictures_of_looks(b, url, wrapper)
    judge(not b.errors, f'nothing in the console {b.errors[:3] or ""}')


def test_folder_and_place(b, a, url, d):
    """A folder that is chosen, and an output that goes to the place which the user names: one of the private file system here."""
    folder = a.testdata / 'modern/dcp-fsdp2'
    open_page(b, url)
    b.set_files('folder', [folder])
    answered(b)
    b.js('document.getElementById("command").value = "pgjoin dcp-fsdp2 model.safetensors"')
    press(b, '#go')
    b.wait('document.querySelector("#outputs a")')
    b.js('(window.showSaveFilePicker = async () => (await navigator.storage.getDirectory()).getFileHandle("saved", {create: true})) && 1')
    press(b, '#outputs button')
    b.wait('document.querySelector("#outputs [role=status]").textContent')
    saved = b.js('navigator.storage.getDirectory().then((top) => top.getFileHandle("saved")).then((h) => h.getFile()).then((f) => f.arrayBuffer())'
                 '.then((x) => crypto.subtle.digest("SHA-256", x)).then((x) => [...new Uint8Array(x)].map((y) => y.toString(16).padStart(2, "0")).join(""))')
    subprocess.run([a.tools / 'pgjoin', folder, d / 'model.safetensors'], check=True, stdout=subprocess.DEVNULL)
    kept = 'navigator.storage.getDirectory().then(async (top) => { let n = 0; for await (const name of top.keys()) n += name.startsWith("pg-"); return n; })'
    before = b.js(kept)
    press(b, '#clear')
    b.wait(f'{kept}.then((n) => n === 0)')
    judge(before == 1, 'a page that is gone leaves nothing behind, nor does starting again')
    judge(saved == hashlib.sha256((d / 'model.safetensors').read_bytes()).hexdigest(), 'a folder is joined, the output is where the user wants it')


def write_big(path, n_bytes):
    """Tensors of about 64 MB below "module.", as a wrapper of PyTorch names them."""
    n = max(1, n_bytes >> 26)
    size = n_bytes // n // 4096 * 4096
    head = json.dumps({f'module.layer{i}.weight': {'dtype': 'F32', 'shape': [1024, size // 4096], 'data_offsets': [i * size, (i + 1) * size]}
                       for i in range(n)}).encode()
    head += b' ' * (-len(head) % 8)
    piece = bytes(range(256)) * (1 << 12)
    with open(path, 'wb') as f:
        f.write(len(head).to_bytes(8, 'little') + head)
        for _ in range(n):
            for at in range(0, size, len(piece)):
                f.write(piece[:size - at])


# ---- opened as a file ----

def test_file(b, a, url):
    """What browsers allow a page that no server serves: too little, so that it says what to do."""
    b.open((a.web / 'index.html').as_uri())
    shown = b.js('document.querySelector("main").innerText')
    judge(shown.startswith('Browsers do not run this page from a file: type python3 -m http.server') and b.js('document.getElementById("app").hidden'),
          f'as a file, the page says what to do {shown[:200]!r}')
    refused = {what: b.js(f'(async () => {code})().then(() => false, () => true)') for what, code in {
        'module': 'import("./words.js")', 'fetch': 'fetch("pg.wasm")',
        'worker': 'new Promise((resolve, reject) => { const w = new Worker("worker.js", {type: "module"}); w.onerror = reject; '
                  'setTimeout(resolve, 5000); })'}.items()}
    judge(all(refused.values()), f'nor does {b.name} allow more {refused}')


# ---- looks ----

class Looks:
    """Pictures for the manual, and what axe-core finds."""
    def __init__(self, folder, axe):
        self.folder, self.axe = folder and pathlib.Path(folder), axe and pathlib.Path(axe).read_text()

    def picture(self, b, name, width=900, height=760, dark=False):
        if self.folder and b.name == 'chromium':
            b.look(width, height, dark)
            time.sleep(.3)
            b.picture(self.folder / f'{name}.png')
            b.look()

    def pictures_of_looks(self, b, url, wrapper):
        if b.name != 'chromium':
            return
        open_page(b, url)
        choose(b, wrapper)
        self.picture(b, 'phone', 390, 760)
        self.picture(b, 'dark', dark=True)
        b.look(dark=True)
        self.axe_finds(b, 'dark')
        b.look()

    def axe_finds(self, b, state):
        if not self.axe:
            return
        if not b.js('"axe" in window'):
            b.js(f'(() => {{ {self.axe}; return 1; }})()')
        found = b.js('axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes[0].html.slice(0, 100)))')
        judge(not found, f'axe, {state} {found or ""}')


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    for name in ('web', 'tools', 'testdata'):
        p.add_argument(name, type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('--browser', choices=Browser.NAMES)
    p.add_argument('--only', choices=('page', 'file', 'reading', 'golden', 'hostile'))
    p.add_argument('--pictures')
    p.add_argument('--axe')
    a = p.parse_args()
    looks = Looks(a.pictures, a.axe)
    a.picture, a.axe_finds, a.pictures_of_looks = looks.picture, looks.axe_finds, looks.pictures_of_looks
    browsers = [n for n in Browser.NAMES if Browser.program(n) and a.browser in (None, n)]
    if not browsers or not (a.web / 'pg.wasm').exists():
        print('no browser here, or no page: meson compile -C build web')
        return 77
    url = serve(a.web)
    for name in browsers:
        print(f'==== {name}')
        for part, test in (('page', test_page), ('file', test_file), ('reading', test_reading), ('golden', test_golden), ('hostile', test_hostile)):
            if a.only not in (None, part):
                continue
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, \
                    Browser(name, profile, prefs={'remote.prefs.recommended': part != 'file'}) as b:  # which let Firefox run it
                start = time.monotonic()
                if part in ('golden', 'hostile'):
                    help_page(b, url)
                try:
                    test(b, a, url)
                except Lost as e:
                    judge(False, f'{part}: {e}; the page shows {b.js("document.body.innerText")[-1000:]!r} {b.errors}')
                print(f'     {part}: {time.monotonic() - start:.0f} s')
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
