// system.js - the system below pg.wasm: what its C library imports. A tree of folders and files, in which the files that the user
// gave are read in slices and those that a tool writes go to a store, open files, arguments, clocks. Nothing waits and nothing
// needs a browser: the worker says what a file and a store are.
//
// Numbers of errors are WASI's, layouts those of Emscripten's musl.

const E = {ACCES: 2, BADF: 8, EXIST: 20, INVAL: 28, IO: 29, ISDIR: 31, MFILE: 33, MLINK: 34, NAMETOOLONG: 37, NOENT: 44, NOSPC: 51,
    NOSYS: 52, NOTDIR: 54, NOTEMPTY: 55, ROFS: 69, SPIPE: 70};
const O_ACCMODE = 3, O_CREAT = 0o100, O_EXCL = 0o200, O_TRUNC = 0o1000, O_APPEND = 0o2000, O_DIRECTORY = 0o200000;
const AT_FDCWD = -100, AT_REMOVEDIR = 0x200, AT_EMPTY_PATH = 0x1000, W_OK = 2;
const S_IFDIR = 0o40000, S_IFREG = 0o100000;
const N_FILES = 1024; // open at a time, as on Linux
const WAITS = 'Suspending' in WebAssembly; // calls may wait for a promise

// Thrown, and no Error, which would note where: a tool asks for thousands of files that are not there.
class Errno {
    constructor(code) {
        this.code = code;
    }
}
class Exit {
    constructor(status) {
        this.status = status;
    }
}
const encoder = new TextEncoder(), decoder = new TextDecoder();
const fail = (code) => {
    throw new Errno(code);
};

// ---- the tree ----

let n_nodes = 1;

class Node {
    constructor(mode, mtime = Date.now()) {
        this.mode = mode;
        this.mtime = mtime;
        this.ino = ++n_nodes;
        this.links = 1;
    }
}

export class Folder extends Node {
    constructor(parent) {
        super(S_IFDIR | 0o777);
        this.parent = parent || this;
        this.entries = new Map();
    }
    get size() {
        return 4096;
    }
    // The folder at a path below this one, made if it is not there.
    at(parts) {
        return parts.reduce((folder, name) => {
            if (!folder.entries.has(name))
                folder.entries.set(name, new Folder(folder));
            return folder.entries.get(name);
        }, this);
    }
}

const PAGE = 1 << 18, N_PAGES = 64; // small reads: of headers, names, indexes
const FIRST = 1 << 20, AHEAD = 1 << 22; // tensors, in a row: a browser takes milliseconds for each slice, whatever its size
const N_ROWS = 4;

// Memory of slices is given back at once: a garbage collector does not see how much it is.
const release = (bytes) => void bytes.buffer.transfer?.(0);

// Reads of a file that follow each other: what was read last, and where more comes from.
class Row {
    constructor(file, at) {
        Object.assign(this, {file, from: at, bytes: new Uint8Array(0), size: FIRST / 2, stream: undefined});
    }
    get end() {
        return this.from + this.bytes.length;
    }
    slice() {
        const from = this.end;
        this.drop();
        this.size = Math.min(2 * this.size, AHEAD);
        Object.assign(this, {from, bytes: this.file.fetch(from, Math.min(from + this.size, this.file.size))});
        return this.bytes;
    }
    // The same from a stream, which leaves no garbage behind, and is read while the caller works.
    async next() {
        const from = this.end;
        if (!this.stream)
            this.drop();
        this.stream ??= this.file.stream(from);
        Object.assign(this, {from, bytes: await this.stream.next()});
        return this.bytes;
    }
    drop() {
        if (this.stream)
            this.stream.end();
        else
            release(this.bytes);
        this.stream = undefined;
        this.bytes = new Uint8Array(0);
    }
}

// What was read of all files: pages and rows, the oldest first.
export class Pages {
    constructor() {
        this.map = new Map();
        this.rows = [];
    }
    // From `at` to the end of what a row has, if `at` is in it, else undefined.
    seen(file, at) {
        const row = this.rows.find((r) => r.file === file && at >= r.from && at < r.end);
        return row?.bytes.subarray(at - row.from);
    }
    // The row that comes to `at` next, or a new one.
    row(file, at) {
        const found = this.rows.findIndex((r) => r.file === file && r.end === at);
        const row = found < 0 ? new Row(file, at) : this.rows.splice(found, 1)[0];
        this.rows.push(row);
        if (this.rows.length > N_ROWS)
            this.rows.shift().drop();
        return row;
    }
    ahead(file, at) {
        return this.row(file, at).slice();
    }
    async next(file, at) {
        const row = this.row(file, at);
        if (!row.bytes.length) // perhaps there will be no other
            return row.slice();
        try {
            return await row.next();
        } catch { // it stalls or fails: slices say whether the file is readable
            file.stream = undefined;
            row.from = at;
            row.drop();
            return row.slice();
        }
    }
    end() {
        this.rows.forEach((row) => row.drop());
    }
    get(file, page) {
        const key = `${file.ino} ${page}`;
        let bytes = this.map.get(key);
        this.map.delete(key);
        bytes ??= file.fetch(page * PAGE, Math.min((page + 1) * PAGE, file.size));
        this.map.set(key, bytes);
        if (this.map.size > N_PAGES)
            this.map.delete(this.map.keys().next().value);
        return bytes;
    }
}

// A file to read: fetch(from, to) returns its bytes, or throws; stream(from), if there is one, an object whose next() promises the
// next bytes, and which end() closes.
export class Input extends Node {
    constructor(size, mtime, pages, {fetch, stream}) {
        super(S_IFREG | 0o444, mtime);
        Object.assign(this, {size, pages, fetch, stream});
    }
    // As read(), for many bytes in a row; a promise of it if they have to come first. put(offset, bytes) takes them.
    read_ahead(at, n, put) {
        const end = Math.max(0, Math.min(n, this.size - at)), seen = end ? this.pages.seen(this, at) : new Uint8Array(0);
        if (!seen || seen.length < end)
            return this.read_on(at, end, put);
        put(0, seen.subarray(0, end));
        return end;
    }
    async read_on(at, end, put) {
        for (let done = 0; done < end;) {
            const piece = this.pages.seen(this, at + done) ?? await this.pages.next(this, at + done);
            put(done, piece.subarray(0, end - done));
            done += Math.min(piece.length, end - done) || fail(E.IO);
        }
        return end;
    }
    read(at, out) {
        const n = Math.max(0, Math.min(out.length, this.size - at));
        try {
            for (let done = 0; done < n;) {
                const piece = this.piece(at + done, n - done).subarray(0, n - done);
                out.set(piece, done);
                done += piece.length || fail(E.IO);
            }
            return n;
        } catch (e) {
            throw e instanceof Errno ? e : new Errno(E.IO);
        }
    }
    // The bytes from `at` on: some of the n that are wanted, or more.
    piece(at, n) {
        const seen = this.pages.seen(this, at);
        if (seen || n >= PAGE)
            return seen ?? this.pages.ahead(this, at);
        const page = Math.floor(at / PAGE);
        return this.pages.get(this, page).subarray(at - page * PAGE);
    }
    write() {
        fail(E.ROFS);
    }
    resize() {
        fail(E.ROFS);
    }
}

export const CHUNK = 1 << 18;

// A file in chunks of a store, which need not follow each other there: -1 is a hole. A store has read(at, bytes), write(at, bytes),
// a number of bytes that are free, and n_bytes, where the next chunk goes.
export class Output extends Node {
    constructor(store) {
        super(S_IFREG | 0o666);
        this.store = store;
        this.size = 0;
        this.chunks = [];
    }
    // Calls what(place in the store or -1, part of bytes) for each piece of a range: as many chunks as follow each other.
    each(at, bytes, what) {
        for (let done = 0, n; done < bytes.length; done += n) {
            let k = Math.floor((at + done) / CHUNK);
            const from = at + done - k * CHUNK, where = this.chunks[k] ?? -1;
            for (n = CHUNK - from; where >= 0 && done + n < bytes.length && this.chunks[k + 1] === this.chunks[k] + CHUNK; k++)
                n += CHUNK;
            what(where < 0 ? -1 : where + from, bytes.subarray(done, done + n));
        }
    }
    read(at, out) {
        const n = Math.max(0, Math.min(out.length, this.size - at));
        this.each(at, out.subarray(0, n), (where, piece) => {
            piece.fill(0, where < 0 ? 0 : this.store.read(where, piece)); // the store may end before
        });
        return n;
    }
    write(at, bytes) {
        const end = at + bytes.length;
        for (let k = Math.floor(at / CHUNK); k * CHUNK < end; k++) {
            while (this.chunks.length <= k)
                this.chunks.push(-1);
            if (this.chunks[k] < 0)
                this.chunks[k] = this.store.take(k * CHUNK < at || end < (k + 1) * CHUNK);
        }
        this.each(at, bytes, (where, piece) => {
            if (this.store.write(where, piece) !== piece.length)
                fail(E.NOSPC);
        });
        this.size = Math.max(this.size, at + bytes.length);
        this.mtime = Date.now();
        return bytes.length;
    }
    resize(n) {
        const keep = Math.ceil(n / CHUNK), rest = n % CHUNK;
        if (n < this.size && rest && (this.chunks[keep - 1] ?? -1) >= 0)
            this.store.write(this.chunks[keep - 1] + rest, new Uint8Array(CHUNK - rest));
        this.store.give(this.chunks.splice(keep));
        this.size = n;
    }
    drop() {
        this.store.give(this.chunks.splice(0));
    }
    // The ranges of the store that make the file: [from, to) in order, from < 0 for zeros.
    ranges() {
        const out = [];
        for (let at = 0; at < this.size; at += CHUNK) {
            const where = this.chunks[at / CHUNK] ?? -1, n = Math.min(CHUNK, this.size - at), last = out[out.length - 1];
            if (last && where >= 0 && last[1] === where)
                last[1] += n;
            else
                out.push(where < 0 ? [-1, n - 1] : [where, where + n]);
        }
        return out;
    }
}

// What stores share: chunks that were given back are taken first, and cleared.
export class Store {
    constructor() {
        this.n_bytes = 0;
        this.spare = [];
    }
    take(partly) {
        const where = this.spare.length ? this.spare.pop() : this.n_bytes;
        if (where === this.n_bytes)
            this.n_bytes += CHUNK;
        else if (partly)
            this.write(where, new Uint8Array(CHUNK));
        return where;
    }
    give(chunks) {
        this.spare.push(...chunks.filter((c) => c >= 0).reverse());
    }
}

// One in memory, of at most limit bytes.
export class MemoryStore extends Store {
    constructor(limit) {
        super();
        this.limit = limit;
        this.chunks = [];
    }
    get free() {
        return this.limit - CHUNK * (this.chunks.length - this.spare.length);
    }
    // The parts of memory that are [from, to).
    parts(from, to) {
        const out = [];
        for (let at = from; at < to; at = Math.floor(at / CHUNK + 1) * CHUNK) {
            const chunk = this.chunks[Math.floor(at / CHUNK)] ??= new Uint8Array(CHUNK);
            out.push(chunk.subarray(at % CHUNK, Math.min(CHUNK, to - at + at % CHUNK)));
        }
        return out;
    }
    read(at, bytes) {
        let done = 0;
        for (const part of this.parts(at, at + bytes.length)) {
            bytes.set(part, done);
            done += part.length;
        }
        return done;
    }
    write(at, bytes) {
        let done = 0;
        for (const part of this.free < 0 ? [] : this.parts(at, at + bytes.length)) {
            part.set(bytes.subarray(done, done + part.length));
            done += part.length;
        }
        return done;
    }
    async blobs(ranges_of) {
        return ranges_of.map((ranges) =>
            new Blob(ranges.flatMap(([from, to]) => from < 0 ? [new Uint8Array(to - from)] : this.parts(from, to))));
    }
}

// ---- the calls ----

// One run of a program: {args, root, cwd, store, print(fd, bytes)}.
export class System {
    constructor(options) {
        Object.assign(this, options);
        this.open = [{tty: true}, {tty: true}, {tty: true}];
        this.env = ['LANG=C.UTF-8', 'LC_ALL=C.UTF-8', 'TMPDIR=/.tmp', 'NO_COLOR=1'];
        this.root.at(['.tmp']);
    }

    // Runs the module (WebAssembly.Module) and promises its exit status.
    async run(module) {
        const {memory, _start} = new WebAssembly.Instance(module, this.imports(module)).exports;
        this.memory = memory;
        try {
            await (WAITS ? WebAssembly.promising(_start) : _start)();
            return 0;
        } catch (e) {
            if (e instanceof Exit)
                return e.status;
            throw e;
        } finally {
            this.open.length = 0;
            this.root.entries.delete('.tmp');
        }
    }

    imports(module) {
        const out = {};
        for (const {module: from, name, kind} of WebAssembly.Module.imports(module)) {
            const call = kind === 'function' && this[name];
            out[from] ??= {};
            out[from][name] = call ? this.guard(call, from === 'env' ? -1 : 1) : () => -E.NOSYS;
            if (WAITS && name === 'fd_pread')
                out[from][name] = new WebAssembly.Suspending(out[from][name]);
        }
        return out;
    }

    // Calls return their error: system calls as a negative number, WASI's as a positive one.
    guard(call, sign) {
        const failed = (e) => {
            if (e instanceof Errno)
                return sign * e.code;
            throw e;
        };
        return (...args) => {
            try {
                const answer = call.apply(this, args) ?? 0;
                return answer instanceof Promise ? answer.catch(failed) : answer;
            } catch (e) {
                return failed(e);
            }
        };
    }

    get view() {
        return this.memory.buffer === this.seen?.buffer ? this.seen : (this.seen = new DataView(this.memory.buffer));
    }
    bytes(at, n) {
        return new Uint8Array(this.memory.buffer, at >>> 0, n);
    }
    text(at) {
        const all = new Uint8Array(this.memory.buffer);
        return decoder.decode(all.subarray(at, all.indexOf(0, at)));
    }
    put32(at, n) {
        this.view.setUint32(at, n, true);
    }
    put64(at, n) {
        this.view.setBigInt64(at, BigInt(n), true);
    }
    put_text(at, size, text) {
        const bytes = encoder.encode(text + '\0');
        if (bytes.length > size)
            fail(E.NAMETOOLONG);
        this.bytes(at, bytes.length).set(bytes);
        return bytes.length;
    }

    // ---- paths ----

    // {parent, name, node}: node is undefined if nothing has the name.
    find(dirfd, at) {
        const path = this.text(at), parts = path.split('/').filter((p) => p !== '' && p !== '.');
        let node = path[0] === '/' ? this.root : dirfd === AT_FDCWD ? this.cwd : this.file(dirfd).node;
        let parent = node.parent, name = '.';
        if (path === '')
            fail(E.NOENT);
        for (name of parts) {
            if (!node)
                fail(E.NOENT);
            if (!node.entries)
                fail(E.NOTDIR);
            parent = node;
            node = name === '..' ? node.parent : node.entries.get(name);
        }
        if (node && !node.entries && path.endsWith('/'))
            fail(E.NOTDIR);
        if (name.length > 85 && encoder.encode(name).length > 255)
            fail(E.NAMETOOLONG);
        return {parent, name, node};
    }
    there(dirfd, at) {
        return this.find(dirfd, at).node || fail(E.NOENT);
    }
    file(fd) {
        return this.open[fd] || fail(E.BADF);
    }

    __syscall_open(path, flags, mode) {
        return this.__syscall_openat(AT_FDCWD, path, flags, mode);
    }
    __syscall_openat(dirfd, path, flags) {
        const {parent, name, node: old} = this.find(dirfd, path);
        let node = old;
        if (node && flags & O_CREAT && flags & O_EXCL)
            fail(E.EXIST);
        if (!node && !(flags & O_CREAT))
            fail(E.NOENT);
        if (node && flags & O_DIRECTORY && !node.entries)
            fail(E.NOTDIR);
        if (node?.entries && flags & O_ACCMODE)
            fail(E.ISDIR);
        if (node instanceof Input && flags & O_ACCMODE)
            fail(E.ACCES);
        if (!node)
            parent.entries.set(name, node = new Output(this.store));
        else if (flags & O_TRUNC && flags & O_ACCMODE)
            node.resize(0);
        return this.add({node, flags, at: 0});
    }
    add(file) {
        let fd = this.open.findIndex((f) => !f);
        if (fd < 0)
            fd = this.open.length;
        if (fd >= N_FILES)
            fail(E.MFILE);
        this.open[fd] = file;
        if (file.node)
            file.node.n_open = (file.node.n_open || 0) + 1;
        return fd;
    }
    __syscall_dup(fd) {
        return this.add(this.file(fd));
    }
    fd_close(fd) {
        const {node} = this.file(fd);
        this.open[fd] = undefined;
        if (node && --node.n_open === 0 && node.links === 0)
            node.drop?.();
    }

    unlink({parent, name, node}) {
        parent.entries.delete(name);
        node.links = 0;
        if (!node.n_open)
            node.drop?.();
    }
    __syscall_unlink(path) {
        return this.__syscall_unlinkat(AT_FDCWD, path, 0);
    }
    __syscall_rmdir(path) {
        return this.__syscall_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
    }
    __syscall_unlinkat(dirfd, path, flags) {
        const found = this.find(dirfd, path), {node} = found;
        if (!node)
            fail(E.NOENT);
        if (!!node.entries !== !!(flags & AT_REMOVEDIR))
            fail(node.entries ? E.ISDIR : E.NOTDIR);
        if (node.entries?.size)
            fail(E.NOTEMPTY);
        this.unlink(found);
    }
    __syscall_rename(from, to) {
        return this.__syscall_renameat(AT_FDCWD, from, AT_FDCWD, to);
    }
    __syscall_renameat(from_fd, from, to_fd, to) {
        const a = this.find(from_fd, from), b = this.find(to_fd, to);
        if (!a.node)
            fail(E.NOENT);
        if (a.node === b.node)
            return;
        if (b.node && !!b.node.entries !== !!a.node.entries)
            fail(b.node.entries ? E.ISDIR : E.NOTDIR);
        if (b.node?.entries?.size)
            fail(E.NOTEMPTY);
        if (b.node)
            this.unlink(b);
        a.parent.entries.delete(a.name);
        b.parent.entries.set(b.name, a.node);
        if (a.node.entries)
            a.node.parent = b.parent;
    }
    __syscall_linkat() {
        fail(E.MLINK); // no hard links: libpg renames
    }
    __syscall_mkdir(path) {
        return this.__syscall_mkdirat(AT_FDCWD, path);
    }
    __syscall_mkdirat(dirfd, path) {
        const {parent, name, node} = this.find(dirfd, path);
        if (node)
            fail(E.EXIST);
        parent.entries.set(name, new Folder(parent));
    }
    __syscall_readlinkat() {
        fail(E.INVAL); // there are no links
    }
    __syscall_readlink() {
        fail(E.INVAL);
    }
    __syscall_getcwd(at, size) {
        const names = [];
        for (let node = this.cwd; node !== this.root; node = node.parent)
            names.unshift([...node.parent.entries].find(([, n]) => n === node)[0]);
        return this.put_text(at, size, '/' + names.join('/'));
    }

    // ---- what a file is ----

    stat(node, at) {
        this.bytes(at, 88).fill(0);
        this.put32(at, 1);
        this.put32(at + 8, node.ino);
        this.put32(at + 12, node.mode);
        this.put32(at + 16, node.links);
        this.put64(at + 40, node.size);
        this.put32(at + 48, 4096);
        this.put32(at + 52, Math.ceil(node.size / 512));
        for (const k of [56, 64, 72]) {
            this.put32(at + k, Math.floor(node.mtime / 1000));
            this.put32(at + k + 4, Math.floor(node.mtime % 1000) * 1e6);
        }
        this.put64(at + 80, node.ino);
    }
    __syscall_stat64(path, at) {
        this.stat(this.there(AT_FDCWD, path), at);
    }
    __syscall_lstat64(path, at) {
        this.stat(this.there(AT_FDCWD, path), at);
    }
    __syscall_fstat64(fd, at) {
        const {node, tty} = this.file(fd);
        this.stat(tty ? new Node(S_IFREG | 0o600) : node, at);
    }
    __syscall_fstatat64(dirfd, path, at, flags) {
        this.stat(flags & AT_EMPTY_PATH && this.text(path) === '' ? this.file(dirfd).node : this.there(dirfd, path), at);
    }
    __syscall_faccessat(dirfd, path, mode) {
        if (this.there(dirfd, path) instanceof Input && mode & W_OK)
            fail(E.ACCES);
    }
    __syscall_access(path, mode) {
        return this.__syscall_faccessat(AT_FDCWD, path, mode);
    }
    __syscall_fchmod(fd, mode) {
        const {node} = this.file(fd);
        node.mode = (node.mode & ~0o7777) | (mode & 0o7777);
    }
    __syscall_statfs64(path, size, at) {
        const block = 1 << 16, n = Math.min(Math.floor(this.store.free / block), 0xffffffff);
        this.bytes(at, 64).fill(0);
        for (const [k, value] of [[4, block], [8, 0xffffffff], [12, n], [16, n], [36, 255], [40, block]])
            this.put32(at + k, value);
    }
    __syscall_fstatfs64(fd, size, at) {
        this.__syscall_statfs64(0, size, at);
    }
    __syscall_ftruncate64(fd, low, high) {
        this.file(fd).node.resize(high * 2 ** 32 + (low >>> 0));
    }
    __syscall_fdatasync() {}
    fd_sync() {}
    __syscall_getdents64(fd, at, size) {
        const file = this.file(fd);
        if (!file.node.entries)
            fail(E.NOTDIR);
        const names = (file.names ??= ['.', '..', ...file.node.entries.keys()]);
        let n = 0;
        for (; n + 280 <= size && file.at < names.length; n += 280, file.at++) {
            const name = names[file.at], node = file.node.entries.get(name);
            this.bytes(at + n, 280).fill(0);
            this.put64(at + n, node?.ino ?? 1);
            this.put64(at + n + 8, file.at + 1);
            this.view.setUint16(at + n + 16, 280, true);
            this.view.setUint8(at + n + 18, !node || node.entries ? 4 : 8);
            this.put_text(at + n + 19, 256, name);
        }
        return n;
    }

    // ---- bytes ----

    // Calls move(bytes) for each buffer of a list until one falls short; puts the sum at `sum`.
    vector(iov, n, sum, move) {
        let total = 0;
        for (let i = 0; i < n; i++) {
            const size = this.view.getUint32(iov + 8 * i + 4, true);
            const moved = size ? move(this.bytes(this.view.getUint32(iov + 8 * i, true), size)) : 0;
            total += moved;
            if (moved < size)
                break;
        }
        this.put32(sum, total);
    }
    readable(fd) {
        const file = this.file(fd);
        return file.node?.entries ? fail(E.ISDIR) : file;
    }
    fd_read(fd, iov, n, sum) {
        const file = this.readable(fd);
        this.vector(iov, n, sum, (bytes) => {
            const got = file.tty ? 0 : file.node.read(file.at, bytes);
            file.at += got;
            return got;
        });
    }
    fd_pread(fd, iov, n, at, sum) {
        let from = Number(at);
        const file = this.readable(fd), size = this.view.getUint32(iov + 4, true);
        if (WAITS && n === 1 && size >= PAGE && file.node.stream)
            return this.pread_ahead(file.node, from, this.view.getUint32(iov, true), size, sum);
        this.vector(iov, n, sum, (bytes) => {
            const got = file.node.read(from, bytes);
            from += got;
            return got;
        });
    }
    pread_ahead(node, from, to, size, sum) {
        const got = node.read_ahead(from, size, (at, bytes) => this.bytes(to + at, bytes.length).set(bytes));
        if (typeof got === 'number')
            return this.put32(sum, got);
        return got.then((n) => this.put32(sum, n) ?? 0, (e) => {
            throw e instanceof Errno ? e : new Errno(E.IO);
        });
    }
    fd_write(fd, iov, n, sum) {
        const file = this.readable(fd);
        this.vector(iov, n, sum, (bytes) => {
            if (file.tty) {
                this.print(fd, bytes.slice());
                return bytes.length;
            }
            if (!(file.flags & O_ACCMODE))
                fail(E.BADF);
            if (file.flags & O_APPEND)
                file.at = file.node.size;
            file.node.write(file.at, bytes);
            file.at += bytes.length;
            return bytes.length;
        });
    }
    fd_pwrite(fd, iov, n, at, sum) {
        let to = Number(at);
        const file = this.readable(fd);
        if (!(file.flags & O_ACCMODE))
            fail(E.BADF);
        this.vector(iov, n, sum, (bytes) => {
            file.node.write(to, bytes);
            to += bytes.length;
            return bytes.length;
        });
    }
    fd_seek(fd, offset, whence, at) {
        const file = this.file(fd);
        if (file.tty)
            fail(E.SPIPE);
        const from = [0, file.at, file.node.size][whence] ?? fail(E.INVAL), to = from + Number(offset);
        if (to < 0)
            fail(E.INVAL);
        file.at = to;
        if (file.node.entries)
            file.names = undefined;
        this.put64(at, to);
    }
    fd_fdstat_get(fd, at) {
        const {tty, node} = this.file(fd);
        this.bytes(at, 24).fill(0);
        this.view.setUint8(at, tty ? 6 : node.entries ? 3 : 4); // a pipe is none of WASI's kinds: 6 is a stream
    }

    // ---- the process ----

    put_list(pointers, at, list) {
        for (const text of list) {
            this.put32(pointers, at);
            pointers += 4;
            at += this.put_text(at, Infinity, text);
        }
    }
    put_sizes(count, bytes, list) {
        this.put32(count, list.length);
        this.put32(bytes, encoder.encode(list.map((s) => s + '\0').join('')).length);
    }
    args_get(pointers, at) {
        this.put_list(pointers, at, this.args);
    }
    args_sizes_get(count, bytes) {
        this.put_sizes(count, bytes, this.args);
    }
    environ_get(pointers, at) {
        this.put_list(pointers, at, this.env);
    }
    environ_sizes_get(count, bytes) {
        this.put_sizes(count, bytes, this.env);
    }
    clock_time_get(clock, precision, at) {
        this.put64(at, Math.round((clock === 0 ? Date.now() : performance.now()) * 1e6));
    }
    clock_res_get(clock, at) {
        this.put64(at, 1000000);
    }
    getentropy(at, n) {
        crypto.getRandomValues(this.bytes(at, n));
    }
    __syscall_getuid32() {}
    __syscall_geteuid32() {}
    __syscall_getgid32() {}
    __syscall_getegid32() {}
    _dlopen_js() {} // NULL: HDF5 looks for plug-ins
    _dlsym_js() {}
    emscripten_notify_memory_growth() {}
    proc_exit(status) {
        throw new Exit(status);
    }
}
