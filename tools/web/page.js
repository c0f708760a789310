// page.js - the page: what is dropped is looked at (pginfo), what the tool proposes becomes a button, and a button is a command, which
// everybody may also type. Text from files and tools is only ever set as text.
import {Engine} from './engine.js';
import {words} from './words.js';

const $ = (id) => document.getElementById(id);
const PROGRESS = '--progress=always';
const SMALL = 200 << 20; // the report with histograms reads all values: at once only if they are few
const MOST_LOOKED_AT = 64; // files that are tried after a failure
const WRITERS = /^pg(unwrap|wrap|join|split|convert)$/;
const TOOLS = ['unwrap', 'wrap', 'join', 'split', 'convert', 'diff', 'check', 'info'];

let language = 'en', asked = '';
const engine = Engine.load(); // a promise: files may come before it
let given = new Map(); // path -> File
let operand = '', model = '', proposed = '', running = 0, turn = 0; // model: what came with operand as its description

// ---- language and action: the page's fragment ----

const t = (key) => words[language][key];

function translate() {
    document.documentElement.lang = language;
    document.title = `libpg: ${t('title')}`;
    for (const node of document.querySelectorAll('[data-t]'))
        node.textContent = t(node.dataset.t);
}

function read_fragment() {
    const parts = location.hash.slice(1).split(/[,&/]/);
    language = parts.find((p) => p in words) ?? language;
    asked = parts.find((p) => TOOLS.includes(p)) ?? asked;
    translate();
}

// ---- commands ----

const quote = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

// A file as a tool's operand: never an option.
const operand_of = (path) => path.startsWith('-') ? `./${path}` : path;

// The words of a command, as a shell would see them without its wildcards and variables.
function split_words(text) {
    const out = [];
    for (const [word] of text.matchAll(/(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+/gs))
        out.push(word.replace(/'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)/gs, (all, plain, rich, one) =>
            plain ?? rich?.replace(/\\(["\\$`])/g, '$1') ?? one));
    return out;
}

// The commands of a tool's "try:" lines, without the remarks behind them.
const proposals_of = (text) => [...text.matchAll(/^try: (pg\w+ .*)$/gm)].map(([, line]) => line.replace(/ {2,}.*$/, ''));

const ending = (path) => /(\.weights\.h5|\.safetensors|\.[a-z0-9]+)?$/i.exec(path)[1] ?? '';

function free_name(stem, end) {
    for (let i = 1; ; i++) {
        const name = i === 1 ? stem + end : `${stem}-${i}${end}`;
        if (!given.has(name))
            return name;
    }
}

// A command for one of the actions.
function command_for(action) {
    const file = quote(operand_of(operand)), out = (stem, end) => quote(free_name(stem, end));
    const second = [...given.keys()].find((p) => p !== operand && p !== clean(model)) ?? 'OTHER';
    switch (action) {
    case 'unwrap': return proposed.startsWith('pgunwrap ') ? proposed : `pgunwrap ${file} ${out('single', ending(operand) || '.safetensors')}`;
    case 'wrap': return `pgwrap --gpus 2 ${file} ${out('parallel', ending(operand))}`;
    case 'join': return `pgjoin ${file} ${out('joined', '.safetensors')}`;
    case 'split': return `pgsplit --max-shard-size 1GB ${file} ${out('shards', '')}`;
    case 'convert': return `pgconvert ${file} ${out('converted', ending(operand) === '.safetensors' ? '.npz' : '.safetensors')}`;
    case 'diff': return `pgdiff ${file} ${quote(operand_of(second))}`;
    case 'check': return model ? `pgcheck --model ${quote(operand_of(model))} ${file}` : `pgcheck ${file}`;
    default: return `pginfo ${file}`;
    }
}

// ---- files ----

function show_files() {
    $('given').hidden = given.size === 0;
    $('drop').classList.toggle('small', given.size > 0);
    const names = [...given.keys()], shown = names.slice(0, 12);
    $('list').replaceChildren(...shown.map((path) => {
        const li = document.createElement('li');
        li.textContent = `${path}  (${size_text(given.get(path).size)})`;
        return li;
    }));
    if (names.length > shown.length) {
        const li = document.createElement('li');
        li.textContent = `… ${names.length}`;
        $('list').append(li);
    }
}

function size_text(n) {
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let k = 0;
    for (; n >= 1000 && k + 1 < units.length; k++)
        n /= 1000;
    return `${k ? n.toFixed(1) : n} ${units[k]}`;
}

const clean = (path) => path.split('/').filter((p) => p && p !== '.' && p !== '..').join('/');

function add_files(files) {
    const tops = new Set();
    for (const {path, file} of files) {
        const name = clean(path);
        if (name) {
            given.set(name, file);
            tops.add(name.split('/')[0]);
        }
    }
    show_files();
    return look([...tops]);
}

// The files of a folder that was dropped.
async function walk(entry, path, out) {
    if (entry.isFile)
        out.push({path: path + entry.name, file: await new Promise((ok, no) => entry.file(ok, no))});
    else
        for (const reader = entry.createReader(); ;) {
            const some = await new Promise((ok, no) => reader.readEntries(ok, no));
            if (some.length === 0)
                break;
            for (const inner of some)
                await walk(inner, `${path}${entry.name}/`, out);
        }
}

async function dropped(data) {
    const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...data.files], out = [];
    for (const entry of entries)
        await walk(entry, '', out);
    return add_files(out.length ? out : files.map((file) => ({path: file.name, file})));
}

// ---- running ----

// The user asked for something: what runs is ended. Says whether that is still what was asked for last.
function begin() {
    const mine = ++turn;
    if (!$('busy').hidden)
        engine.then((e) => e.cancel());
    return () => mine === turn;
}

const all_files = () => [...given].map(([path, file]) => ({path, file}));

async function run(args, visible = args) {
    const me = ++running;
    $('running').textContent = visible.map(quote).join(' ');
    $('progress').removeAttribute('value');
    $('percent').textContent = '';
    $('busy').hidden = false;
    const result = await (await engine).run(args, all_files(), (percent) => {
        $('progress').value = percent;
        $('percent').textContent = `${percent} %`;
    });
    if (me === running)
        $('busy').hidden = true;
    return result;
}

function clear_answer() {
    for (const id of ['reason', 'outputs', 'proposals', 'report', 'failure', 'text'])
        $(id).replaceChildren();
    for (const id of ['model', 'details'])
        $(id).hidden = true;
}

function show_failure(text) {
    const pre = document.createElement('pre');
    pre.textContent = text.trim();
    $('failure').replaceChildren(pre);
}

// A browser does not read what is another file by now, and the tool only hears that it cannot be read.
async function explain_failure(is_wanted) {
    const said = [];
    for (const [path, file] of [...given].slice(0, MOST_LOOKED_AT))
        try {
            await file.slice(0, 1).arrayBuffer();
        } catch {
            const p = document.createElement('p');
            p.textContent = `${path}: ${t('changed')}`;
            said.push(p);
        }
    if (is_wanted())
        $('failure').append(...said);
}

function button(label, act, primary) {
    const b = document.createElement('button');
    b.textContent = label;
    b.type = 'button';
    b.className = primary ? 'primary' : '';
    b.onclick = act;
    return b;
}

// Buttons for what a tool proposes and a page can do. Words in capitals are what only the user knows; MODEL may have come with the file.
function show_proposals(text) {
    for (const line of proposals_of(text)) {
        const action = /^pg(\w+)/.exec(line)[1], open = line.replace(/ OUT(?= |$)/, () => ` ${quote(free_name('single', ending(operand)))}`);
        if (!TOOLS.includes(action) || / --in-place( |$)/.test(open))
            continue;
        const command = model ? with_model(open, model) : open;
        if (action === 'unwrap')
            proposed = command;
        if (/ MODEL( |$)/.test(command))
            ask_for_model(command);
        else if (!/ [A-Z]{3,}( |$)/.test(command))
            $('proposals').append(button(`${t(action)}: ${command}`, () => perform(command, () => ask_for_another(open)), true));
    }
}

// What came with the file does not fit it.
function ask_for_another(command) {
    if (!model || !/ MODEL( |$)/.test(command))
        return;
    ask_for_model(command, clean(model));
    model = '';
}

const with_model = (command, path) => command.replace(/ MODEL(?= |$)/, () => ` ${quote(operand_of(path))}`);

// A button for the file that stands for MODEL in a command; it stays if the command refuses it, and another takes its place.
function ask_for_model(command, last) {
    $('model').hidden = false;
    $('model-file').onchange = async (event) => {
        const file = event.target.files[0];
        if (!file)
            return;
        given.delete(last);
        const name = free_name(clean(file.name).replaceAll('/', '_') || 'model', '');
        given.set(name, file);
        show_files();
        event.target.value = '';
        await perform(with_model(command, name), () => ask_for_model(command, name));
    };
}

function show_answer(verdict) {
    $('answer').hidden = false;
    $('verdict').textContent = verdict;
    $('commands').hidden = !operand;
    $('actions').replaceChildren(...TOOLS.map((action) => button(t(action), () => {
        $('command').value = command_for(action);
        $('command').focus();
    })));
    $('command').value = command_for(asked || (proposed ? 'unwrap' : 'convert'));
    $('answer').focus();
}

const text_of = (result) => (result.out ?? '') + (result.err ?? '');

// What ended without an answer; 1 if so.
function show_end(result, name) {
    if (result.cancelled)
        show_answer(t('cancelled'));
    else if ('crash' in result) {
        show_failure(`${name}: ${result.crash}`);
        show_answer(t('stopped'));
    }
    return result.cancelled || 'crash' in result;
}

// A file and a description without weights, given together: their names, or undefined.
function file_and_model(found) {
    const is_model = ({action}) => action?.do === 'unwrap' && action.like && !action.file;
    const models = found.filter(is_model), files = found.filter((f) => !is_model(f));
    return files.length === 1 && models.length === 1 ? [files[0].file, models[0].file] : undefined;
}

// Looks at what was given and proposes what to do.
async function look(operands, its_model = '') {
    clear_answer();
    $('answer').hidden = true;
    proposed = '';
    operand = operands[0] ?? '';
    model = its_model;
    if (!operand)
        return;
    const names = operands.map(operand_of), is_wanted = begin();
    const json = await run(['pginfo', '--json', ...names], ['pginfo', ...names]);
    if (!is_wanted() || show_end(json, 'pginfo'))
        return;
    let found;
    try {
        found = JSON.parse(json.out);
    } catch {
        found = {verdict: 'unknown', reason: ''};
    }
    if (Array.isArray(found) && found.length === 1)
        found = found[0];
    if (Array.isArray(found)) {
        const both = file_and_model(found);
        if (both)
            await look([both[0]], both[1]);
        else
            show_several(found);
        return;
    }
    if (found.file)
        operand = found.file;
    const text = await run(['pginfo', operand_of(operand)]);
    if (!is_wanted() || show_end(text, 'pginfo'))
        return;
    $('reason').textContent = found.error ? '' : found.reason;
    if (found.error) {
        show_failure(text.err);
        await explain_failure(is_wanted);
        if (!is_wanted())
            return;
    }
    $('text').textContent = text.out;
    $('details').hidden = !text.out;
    show_proposals(text_of(text));
    if (!found.error) {
        if (!$('proposals').firstChild && $('model').hidden)
            $('proposals').append(button(`${t('convert')}: ${command_for('convert')}`, () => perform(command_for('convert')), true));
        await offer_report();
    }
    if (is_wanted())
        show_answer(t(found.status === 3 ? 'unsupported' : found.verdict) ?? t('unknown'));
}

function show_several(found) {
    for (const {file, verdict, reason} of found)
        $('proposals').append(button(`${file}: ${reason || t(verdict)}`, () => look([file])));
    show_answer(t('several'));
}

async function offer_report() {
    const size = [...given].filter(([path]) => path === operand || path.startsWith(`${operand}/`)).reduce((n, [, f]) => n + f.size, 0);
    if (size > SMALL)
        $('report').append(button(t('report'), show_report));
    else
        await show_report();
}

// The page that pginfo writes, below this one's own: as its author meant it, and as this page's policy allows it.
async function show_report() {
    const name = free_name('report', '.html'), mine = turn;
    const result = await run(['pginfo', PROGRESS, '--html', name, operand_of(operand)], ['pginfo', '--html', name, operand]);
    const file = result.files?.find((f) => f.path === name);
    if (!file || mine !== turn)
        return;
    const text = await file.blob.text(), [whole, style] = /<style>(.*?)<\/style>/s.exec(text);
    const plain = text.replace(whole, '').replaceAll(/(<[a-z][^<>]*) style="/g, '$1 data-style="');
    const page = new DOMParser().parseFromString(plain, 'text/html');
    const host = document.createElement('div'), root = host.attachShadow({mode: 'open'}), sheet = new CSSStyleSheet();
    sheet.replaceSync(style.replaceAll(/(^|[}{\s])(?::root|body)(?={)/gm, '$1:host'));
    root.adoptedStyleSheets = [sheet];
    for (const node of page.body.querySelectorAll('[data-style]'))
        node.style.cssText = node.dataset.style;
    root.append(...page.body.childNodes);
    $('report').replaceChildren(host);
}

// Runs a command that a button or the user gave. again: offers what led to it, if it is refused.
async function perform(command, again = () => {}) {
    const args = split_words(command);
    if (args.length === 0)
        return;
    clear_answer();
    $('answer').hidden = true;
    const is_wanted = begin(), result = await run([args[0], PROGRESS, ...args.slice(1)], args);
    if (!is_wanted() || show_end(result, args[0]))
        return;
    $('text').textContent = result.out;
    $('details').hidden = !result.out;
    if (result.status !== 0) {
        show_failure(result.err || result.out);
        await explain_failure(is_wanted);
        if (!is_wanted())
            return;
        again();
    } else if (result.err)
        $('text').textContent += result.err;
    show_outputs(result.files);
    show_proposals(text_of(result));
    const answer = result.status === 0 ? 'answered' : result.status === 1 && !WRITERS.test(args[0]) ? 'no' : 'refused';
    show_answer(t(result.files.length ? 'done' : answer));
    $('command').value = command;
}

// ---- outputs ----

function show_outputs(files) {
    for (const {path, blob} of files) {
        const name = path.split('/').at(-1), p = document.createElement('p'), a = document.createElement('a');
        const label = document.createElement('code'), state = document.createElement('span');
        label.textContent = `${path} (${size_text(blob.size)}) `;
        a.href = URL.createObjectURL(blob);
        a.download = name;
        a.className = 'button primary';
        a.textContent = `${t('download')} ${name}`;
        state.setAttribute('role', 'status');
        p.append(label, a);
        if ('showSaveFilePicker' in window)
            p.append(button(`${t('save')} ${name}…`, () => save(name, blob, state)));
        p.append(button(t('use'), () => {
            given.set(path, new File([blob], name));
            show_files();
            look([path]);
        }), state);
        $('outputs').append(p);
    }
}

// To a place that the user chooses: whole when the stream is closed, or not there.
async function save(name, blob, state) {
    try {
        const handle = await window.showSaveFilePicker({suggestedName: name});
        await blob.stream().pipeTo(await handle.createWritable());
        state.textContent = t('saved');
    } catch (e) {
        if (e.name !== 'AbortError')
            show_failure(String(e));
    }
}

// ---- start ----

function connect() {
    const paths = (list) => [...list].map((file) => ({path: file.webkitRelativePath || file.name, file}));
    for (const id of ['files', 'folder'])
        $(id).onchange = (event) => {
            const files = paths(event.target.files);
            event.target.value = '';
            if (files.length)
                add_files(files);
        };
    document.ondragover = (event) => {
        event.preventDefault();
        $('drop').classList.add('over');
    };
    document.ondragleave = () => $('drop').classList.remove('over');
    document.ondrop = (event) => {
        event.preventDefault();
        $('drop').classList.remove('over');
        dropped(event.dataTransfer);
    };
    $('clear').onclick = () => {
        turn++;
        given = new Map();
        operand = model = proposed = '';
        engine.then((e) => e.forget());
        clear_answer();
        $('answer').hidden = $('busy').hidden = true;
        show_files();
        $('files').focus();
    };
    $('cancel').onclick = () => engine.then((e) => e.cancel());
    $('commands').onsubmit = (event) => {
        event.preventDefault();
        perform($('command').value);
    };
    window.onhashchange = read_fragment;
}

read_fragment();
connect();
$('unstarted').hidden = true;
$('app').hidden = false;
try {
    $('version').textContent = (await (await engine).run(['pginfo', '--version'], [])).out.split('\n')[0];
} catch (e) {
    show_failure(String(e));
    show_answer(t('stopped'));
}
