// worker.js - runs the tools, one command after the other, where the page stays alive meanwhile. A command finds the files that
// came with it in a tree of its own; what it writes goes to one file of the browser's private file system (OPFS), or to memory
// where there is none, and comes back as Blobs that are slices of it. Ending this worker cancels: nothing is half there.
//
// In: {module, folder} once, then {id, args, files: [{path, file}]}. Out: {id, progress: percent} and
// {id, status, out, err, files: [{path, blob}]}, or {id, crash: text}.
import {Folder, Input, MemoryStore, Pages, Store, System} from './system.js';

const PIECE = 1 << 20;  // of a stream
const SLICE = 1 << 21;  // where slices are read ahead instead, so many of them
const N_SLICES = 4;
const LATE = 5000;      // milliseconds without a byte, after which slices are read as they are needed
const MEMORY = 1 << 30; // what a browser without OPFS may keep

class DiskStore extends Store {
    constructor(top, handle, access, free) {
        super();
        Object.assign(this, {top, handle, access, free});
    }
    read(at, bytes) {
        return this.access.read(bytes, {at});
    }
    write(at, bytes) {
        return this.access.write(bytes, {at});
    }
    async blobs(ranges_of) {
        this.access.close();
        if (ranges_of.length === 0) {
            await this.top.removeEntry(this.handle.name);
            return [];
        }
        const all = await this.handle.getFile();
        return ranges_of.map((ranges) =>
            new Blob(ranges.map(([from, to]) => from < 0 ? new Uint8Array(to - from) : all.slice(from, to))));
    }
}

let module, folder, n_scratch = 0;

async function open_store() {
    try {
        const top = await (await navigator.storage.getDirectory()).getDirectoryHandle(folder, {create: true});
        const handle = await top.getFileHandle(`${n_scratch++}-${crypto.randomUUID()}`, {create: true});
        const {quota, usage} = await navigator.storage.estimate();
        return new DiskStore(top, handle, await handle.createSyncAccessHandle(), Math.max(0, quota - usage));
    } catch {
        return new MemoryStore(MEMORY);
    }
}

const reader = new FileReaderSync();

const streams = new Set(); // a stream that nothing holds is garbage to Chromium, even while somebody waits for it

// The answer to a promise, which fails where it takes too long.
async function in_time(promise) {
    let timer;
    const late = new Promise((resolve, reject) => {
        timer = setTimeout(reject, LATE, 'no bytes');
    });
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}

// A Blob's bytes: next() promises a piece, which lasts until the next one is asked for; one more is on its way meanwhile.
class Stream {
    constructor(blob) {
        streams.add(this);
        this.reader = blob.stream().getReader({mode: 'byob'});
        this.coming = [this.read(new ArrayBuffer(PIECE))];
        this.free = new ArrayBuffer(PIECE);
    }
    read(buffer) {
        const piece = this.reader.read(new Uint8Array(buffer), {min: PIECE});
        piece.catch(() => {}); // whoever waits for it learns of it
        return piece;
    }
    async next() {
        this.coming.push(this.read(this.free));
        const {value} = await in_time(this.coming.shift());
        this.free = value.buffer;
        return value;
    }
    end() {
        streams.delete(this);
        this.reader.cancel().catch(() => {});
    }
}

// The same for Firefox, whose streams go on only while the worker waits.
class Slices {
    constructor(blob) {
        Object.assign(this, {blob, at: 0, coming: [], last: undefined});
        for (let k = 0; k < N_SLICES; k++)
            this.ask();
    }
    ask() {
        if (this.at >= this.blob.size)
            return;
        const slice = this.blob.slice(this.at, this.at += SLICE).arrayBuffer();
        slice.catch(() => {}); // whoever waits for it learns of it
        this.coming.push(slice);
    }
    async next() {
        this.end();
        this.last = await in_time(this.coming.shift());
        this.ask();
        return new Uint8Array(this.last);
    }
    end() {
        this.last?.transfer?.(0); // given back at once: see system.js
        this.last = undefined;
    }
}
const Ahead = navigator.userAgent.includes('Firefox') ? Slices : Stream;

function tree_of(files, pages) {
    const root = new Folder();
    for (const {path, file} of files) {
        const parts = path.split('/');
        const ways = {
            fetch: (from, to) => new Uint8Array(reader.readAsArrayBuffer(file.slice(from, to))),
            stream: (from) => new Ahead(file.slice(from)),
        };
        root.at(parts.slice(0, -1)).entries.set(parts.at(-1), new Input(file.size, file.lastModified ?? 0, pages, ways));
    }
    return root;
}

function outputs_of(folder, path = '') {
    return [...folder.entries].flatMap(([name, node]) => node.entries ? outputs_of(node, `${path}${name}/`)
        : node instanceof Input ? [] : [{path: path + name, node}]);
}

// What a tool prints, and its progress, which it draws on one line.
function printer(id) {
    const text = ['', '', ''], decoders = [1, 2, 3].map(() => new TextDecoder());
    return {
        text,
        print(fd, bytes) {
            text[fd] += decoders[fd].decode(bytes, {stream: true});
            if (fd !== 2 || !text[2].includes('\x1b[K'))
                return;
            const percent = /\r\x1b\[K *(\d+)%/.exec(text[2]);
            text[2] = text[2].replace(/\r\x1b\[K( *\d+%[^\r\n]*)?/g, '');
            if (percent)
                postMessage({id, progress: Number(percent[1])});
        },
    };
}

async function run({id, args, files}) {
    const store = await open_store(), pages = new Pages(), root = tree_of(files, pages), {text, print} = printer(id);
    try {
        const status = await new System({args, root, cwd: root, store, print}).run(module);
        const found = status === 0 ? outputs_of(root) : [];
        const blobs = await store.blobs(found.map(({node}) => node.ranges()));
        postMessage({id, status, out: text[1], err: text[2], files: found.map(({path}, i) => ({path, blob: blobs[i]}))});
    } catch (e) {
        postMessage({id, crash: String(e), err: text[2]});
    } finally {
        pages.end();
    }
}

let last = Promise.resolve();
onmessage = ({data}) => {
    if (data.module)
        ({module, folder} = data);
    else
        last = last.then(() => run(data));
};
