"""Drives Chromium by its DevTools protocol and Firefox by WebDriver BiDi, with Python's standard library: a page at a time.

    with Browser('chromium', profile_folder) as b:
        b.open(url); b.js('document.title'); b.set_files('files', [path, ...]); b.picture('x.png')

plain.test is this machine by a name that browsers do not trust: no private file system there. js() evaluates an expression, waits if it is a
promise, and returns its value by way of JSON."""
import base64
import json
import os
import pathlib
import re
import select
import shutil
import socket
import struct
import subprocess
import time
import urllib.parse
import urllib.request


class Lost(Exception):
    pass


class Socket:
    """A WebSocket: text frames, a whole message at a time."""
    def __init__(self, url):
        u = urllib.parse.urlparse(url)
        self.s = socket.create_connection((u.hostname, u.port), timeout=300)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall((f'GET {u.path or "/"} HTTP/1.1\r\nHost: {u.hostname}:{u.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                        f'Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n').encode())
        head = b''
        while b'\r\n\r\n' not in head:
            head += self.take(1)
        if b' 101 ' not in head.split(b'\r\n')[0]:
            raise Lost(head.decode(errors='replace'))

    def take(self, n):
        out = bytearray()
        while len(out) < n:
            some = self.s.recv(min(n - len(out), 1 << 20))
            if not some:
                raise Lost('the browser closed the connection')
            out += some
        return bytes(out)

    def send(self, message):
        data, mask = json.dumps(message).encode(), os.urandom(4)
        size = struct.pack('!B', 0x80 | len(data)) if len(data) < 126 else struct.pack('!BH', 0xFE, len(data)) if len(data) < 65536 \
            else struct.pack('!BQ', 0xFF, len(data))
        key = (mask * (len(data) // 4 + 1))[:len(data)]
        masked = (int.from_bytes(data, 'big') ^ int.from_bytes(key, 'big')).to_bytes(len(data), 'big')
        self.s.sendall(b'\x81' + size + mask + masked)

    def receive(self):
        out = b''
        while True:
            head, size = self.take(2)
            size &= 127
            if size > 125:
                size = int.from_bytes(self.take(2 if size == 126 else 8), 'big')
            body = self.take(size)
            if head & 15 == 8:
                raise Lost('the browser ended the connection')
            if head & 15 in (0, 1):
                out += body
                if head & 0x80:
                    return json.loads(out)

    def quiet(self, seconds):
        return not select.select([self.s], [], [], seconds)[0]


class Browser:
    NAMES = {'chromium': ['chromium', 'chromium-browser', 'google-chrome'], 'firefox': ['firefox-esr', 'firefox']}

    @classmethod
    def program(cls, name):
        return next(filter(None, map(shutil.which, cls.NAMES[name])), None)

    def __init__(self, name, profile, size=(1000, 900), prefs=()):
        self.name, self.size = name, size
        self.profile = pathlib.Path(profile) / name
        self.profile.mkdir(parents=True, exist_ok=True)
        self.downloads = self.profile / 'downloads'
        self.downloads.mkdir(exist_ok=True)
        (self.profile / 'user.js').write_text(''.join(f'user_pref({json.dumps(k)}, {json.dumps(v)});\n' for k, v in {
            'network.dns.localDomains': 'plain.test', 'browser.download.alwaysOpenPanel': False, 'browser.download.folderList': 2,
            'browser.download.dir': str(self.downloads), 'browser.download.useDownloadDir': True,
            'browser.download.always_ask_before_handling_new_types': False, 'datareporting.policy.dataSubmissionEnabled': False,
            'app.update.enabled': False, 'browser.shell.checkDefaultBrowser': False, 'toolkit.telemetry.enabled': False, **dict(prefs)}.items()))
        self.last, self.errors = 0, []

    def __enter__(self):
        program, env = self.program(self.name), {**os.environ, 'HOME': str(self.profile), 'LANG': 'C.UTF-8'}
        log = open(self.profile / 'log', 'w+')
        width, height = map(str, self.size)
        size = [f'--window-size={width},{height}'] if self.name == 'chromium' else ['--width', width, '--height', height]
        if self.name == 'chromium':
            command = [program, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
                       '--host-resolver-rules=MAP plain.test 127.0.0.1', '--remote-debugging-port=0', f'--user-data-dir={self.profile}', *size, 'about:blank']
        else:
            command = [program, '--headless', '--no-remote', '--profile', str(self.profile), '--remote-debugging-port=0', *size, 'about:blank']
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        try:
            pattern = r'DevTools listening on (ws://\S+)' if self.name == 'chromium' else r'WebDriver BiDi listening on (ws://\S+)'
            end = time.monotonic() + 60
            while not (m := re.search(pattern, (self.profile / 'log').read_text(errors='replace'))):
                if time.monotonic() > end or self.process.poll() is not None:
                    raise Lost(f'{program} did not start: {(self.profile / "log").read_text(errors="replace")[-500:]}')
                time.sleep(.1)
            self.connect(m.group(1))
        except BaseException:
            self.__exit__()
            raise
        return self

    def connect(self, url):
        if self.name == 'chromium':
            port = urllib.parse.urlparse(url).port
            tabs = json.load(urllib.request.urlopen(f'http://127.0.0.1:{port}/json'))
            self.socket = Socket(next(t for t in tabs if t['type'] == 'page')['webSocketDebuggerUrl'])
            for domain in ('Page', 'Runtime', 'DOM', 'Log'):
                self.call(f'{domain}.enable')
            self.call('Browser.setDownloadBehavior', behavior='allow', downloadPath=str(self.downloads))
            return
        self.socket = Socket(url + '/session')
        self.call('session.new', capabilities={})
        self.call('session.subscribe', events=['log.entryAdded'])
        self.tab = self.call('browsingContext.create', type='tab')['context']  # the first one has no keyboard
        self.call('browsingContext.activate', context=self.tab)

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, 15)
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        except ProcessLookupError:
            pass

    def call(self, method, **params):
        self.last += 1
        self.socket.send({'id': self.last, 'method': method, 'params': params})
        while True:
            m = self.socket.receive()
            if m.get('id') == self.last:
                if 'error' in m:
                    raise Lost(f'{method}: {m["error"]} {m.get("message", "")}')
                return m['result']
            self.note(m)

    def note(self, m):
        """Errors that the page's console shows: of its policy, of its scripts."""
        p = m.get('params', {})
        if m.get('method') == 'Runtime.exceptionThrown':
            self.errors.append(p['exceptionDetails'].get('exception', {}).get('description') or p['exceptionDetails']['text'])
        elif m.get('method') == 'Log.entryAdded' and p['entry']['level'] == 'error':
            self.errors.append(p['entry']['text'] + ' ' + p['entry'].get('url', ''))
        elif m.get('method') == 'log.entryAdded' and p['level'] == 'error':
            self.errors.append(p['text'])

    def open(self, url):
        if self.name == 'chromium':
            self.call('Page.navigate', url=url)
            self.wait('document.readyState === "complete"')
        else:
            self.call('browsingContext.navigate', context=self.tab, url=url, wait='complete')

    def js(self, expression):
        code = f'(async () => JSON.stringify(await ({expression}) ?? null))()'
        if self.name == 'chromium':
            r = self.call('Runtime.evaluate', expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
            if 'exceptionDetails' in r:
                raise Lost(r['exceptionDetails'].get('exception', {}).get('description', 'failed') + f' in {expression[:200]}')
            return json.loads(r['result']['value'])
        r = self.call('script.evaluate', expression=code, awaitPromise=True, target={'context': self.tab}, userActivation=True)
        if r['type'] == 'exception':
            raise Lost(r['exceptionDetails']['text'] + f' in {expression[:200]}')
        return json.loads(r['result']['value'])

    def wait(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.js(f'Promise.resolve({expression}).then((x) => !!x)'):
            if time.monotonic() > end:
                raise Lost(f'waited {seconds} s for {expression}')
            time.sleep(.05)

    def set_files(self, element, paths):
        """Chooses files for an <input type=file> by its id, as a user does."""
        paths = [str(p) for p in paths]
        if self.name == 'chromium':
            root = self.call('DOM.getDocument')['root']['nodeId']
            node = self.call('DOM.querySelector', nodeId=root, selector=f'#{element}')['nodeId']
            self.call('DOM.setFileInputFiles', nodeId=node, files=paths)
            return
        r = self.call('script.evaluate', expression=f'document.getElementById("{element}")', awaitPromise=False, target={'context': self.tab})
        self.call('input.setFiles', context=self.tab, element={'sharedId': r['result']['sharedId']}, files=paths)

    def downloaded(self, name, seconds=60):
        """The file that a click on a link downloads, once it is whole."""
        end, path = time.monotonic() + seconds, self.downloads / name
        while not path.exists() or path.stat().st_size == 0 or list(self.downloads.glob('*.part')) + list(self.downloads.glob('*.crdownload')):
            if time.monotonic() > end:
                raise Lost(f'{name} was not downloaded')
            time.sleep(.05)
        return path

    def key(self, name):
        """Presses a key: Tab, Space."""
        if self.name == 'chromium':
            code, text = {'Tab': (9, {}), 'Space': (32, {'text': ' '})}[name]
            for kind in ('keyDown', 'keyUp'):
                self.call('Input.dispatchKeyEvent', type=kind, key=text.get('text', name), code=name, windowsVirtualKeyCode=code,
                          **(text if kind == 'keyDown' else {}))
            return
        value = {'Tab': '\ue004', 'Space': ' '}[name]
        self.call('input.performActions', context=self.tab, actions=[{'type': 'key', 'id': 'k', 'actions': [
            {'type': 'keyDown', 'value': value}, {'type': 'keyUp', 'value': value}]}])

    def look(self, width=1000, height=900, dark=False):
        """Chromium only: the size of the window, and the colours that the reader's system has."""
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def picture(self, path):
        if self.name == 'chromium':
            data = self.call('Page.captureScreenshot', format='png')['data']
        else:
            data = self.call('browsingContext.captureScreenshot', context=self.tab)['data']
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def processes(self):
        """(folder in /proc, fields of its stat behind the name) of each process of the browser."""
        for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
            try:
                fields = stat.read_text().rsplit(')', 1)[1].split()
                if int(fields[2]) == self.process.pid:
                    yield stat.parent, fields
            except (OSError, IndexError):
                pass

    def memory(self):
        """Bytes that all processes of the browser hold for themselves."""
        total = 0
        for folder, _ in self.processes():
            try:
                total += 1024 * sum(int(n) for n in re.findall(r'^Private_\w+: +(\d+) kB', (folder / 'smaps_rollup').read_text(), re.M))
            except OSError:
                pass
        return total

    def cpu_seconds(self):
        """Processor time that all processes of the browser took so far."""
        return sum(int(fields[11]) + int(fields[12]) for _, fields in self.processes()) / os.sysconf('SC_CLK_TCK')
