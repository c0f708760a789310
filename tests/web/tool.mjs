// usage: node --experimental-default-type=module tool.mjs WEB TOOL ARG...
//
// Runs a tool of WEB/pg.wasm on this machine's files, as a browser's worker runs it on the user's: the golden tests of tests/cli
// thus judge the page's engine. What it writes is kept in memory until it ends.
import fs from 'node:fs';
import path from 'node:path';

const [web, tool, ...args] = process.argv.slice(2);
const {CHUNK, Folder, Input, MemoryStore, Pages, System} = await import(path.resolve(web, 'system.js'));
const pages = new Pages();

// A folder of this machine, listed when somebody looks.
class Host extends Folder {
    constructor(parent, where) {
        super(parent);
        this.where = where;
        this.was = new Set();
        Object.defineProperty(this, 'entries', {get: this.list, configurable: true});
    }
    list() {
        const entries = new Map();
        Object.defineProperty(this, 'entries', {value: entries});
        for (const name of fs.readdirSync(this.where)) {
            this.was.add(name);
            const where = path.join(this.where, name);
            const stat = fs.statSync(where, {throwIfNoEntry: false});
            if (stat?.isDirectory())
                entries.set(name, new Host(this, where));
            else if (stat?.isFile())
                entries.set(name, file(where, stat));
        }
        return entries;
    }
    // Does to the machine's folder what was done to this one.
    save() {
        if (Object.getOwnPropertyDescriptor(this, 'entries').get)
            return;
        for (const name of this.was)
            if (!this.entries.has(name) && fs.existsSync(path.join(this.where, name)) && fs.lstatSync(path.join(this.where, name)).isFile())
                fs.unlinkSync(path.join(this.where, name));
        for (const [name, node] of this.entries)
            save(node, path.join(this.where, name));
    }
}

function save(node, where) {
    if (node instanceof Host)
        return node.save();
    if (node instanceof Input)
        return undefined;
    if (!node.entries) {
        const fd = fs.openSync(where, 'w', node.mode & 0o777), piece = new Uint8Array(CHUNK);
        for (let at = 0, n; (n = node.read(at, piece)) > 0; at += n)
            fs.writeSync(fd, piece, 0, n, at);
        fs.closeSync(fd);
        return undefined;
    }
    fs.mkdirSync(where, {recursive: true});
    for (const [name, inner] of node.entries)
        save(inner, path.join(where, name));
    return undefined;
}

function file(where, stat) {
    const fetch = (from, to) => {
        const fd = fs.openSync(where), bytes = new Uint8Array(to - from);
        const n = fs.readSync(fd, bytes, 0, to - from, from);
        fs.closeSync(fd);
        return bytes.subarray(0, n);
    };
    return new Input(stat.size, stat.mtimeMs, pages, {fetch});
}

const root = new Host(undefined, '/');
const cwd = process.cwd().split('/').filter(Boolean).reduce((folder, name) => folder.entries.get(name), root);
const print = (fd, bytes) => {
    try {
        fs.writeSync(fd, bytes);
    } catch {
        process.exit(1); // nobody reads on
    }
};
const system = new System({args: [tool, ...args], root, cwd, store: new MemoryStore(2 ** 40), print});
const status = await system.run(await WebAssembly.compile(fs.readFileSync(path.join(web, 'pg.wasm'))));
root.save();
process.exit(status);
