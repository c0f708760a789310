// engine.js - the tools for the page: a worker that runs one command after the other, and is ended to cancel.

// The folder of this page in the browser's private file system, whose top is undefined if there is none, and a lock that tells other
// pages that it lives: what pages left behind that are gone is removed.
async function claim_folder() {
    const name = `pg-${crypto.randomUUID?.() ?? Math.random()}`;
    let top, held;
    try {
        [top, {held}] = await Promise.all([navigator.storage.getDirectory(), navigator.locks.query()]);
        navigator.locks.request(name, () => new Promise(() => {}));
        for await (const old of top.keys())
            if (old.startsWith('pg-') && old !== name && !held.some((lock) => lock.name === old))
                top.removeEntry(old, {recursive: true}).catch(() => {});
    } catch {
        // no such file system here: the worker keeps files in memory
    }
    return {top, name};
}

async function compile(url) {
    try {
        return await WebAssembly.compileStreaming(fetch(url));
    } catch { // a server that does not know .wasm
        return WebAssembly.compile(await (await fetch(url)).arrayBuffer());
    }
}

export class Engine {
    static async load() {
        const engine = new Engine();
        [engine.module, engine.folder] = await Promise.all([compile(new URL('pg.wasm', import.meta.url)), claim_folder()]);
        addEventListener('pagehide', () => engine.forget());
        addEventListener('pageshow', ({persisted}) => persisted && location.reload());
        engine.start();
        return engine;
    }
    start() {
        this.waiting = new Map();
        this.worker = new Worker(new URL('worker.js', import.meta.url), {type: 'module'});
        this.worker.postMessage({module: this.module, folder: this.folder.name});
        this.worker.onmessage = ({data}) => {
            const {resolve, on_progress} = this.waiting.get(data.id);
            if ('progress' in data)
                return on_progress(data.progress);
            this.waiting.delete(data.id);
            if ('crash' in data)
                this.restart();
            return resolve(data);
        };
    }
    restart(what) {
        const waiting = this.waiting;
        this.worker.terminate();
        this.start();
        for (const {resolve} of waiting.values())
            resolve(what);
    }
    // Ends what runs: its answer is {cancelled: true}.
    cancel() {
        this.restart({cancelled: true});
    }
    // Ends what runs, and removes all outputs; what a browser still locks, the next page removes.
    forget() {
        this.cancel();
        this.folder.top?.removeEntry(this.folder.name, {recursive: true}).catch(() => {});
    }
    // {status, out, err, files: [{path, blob}]}, {crash, err} or {cancelled}. files: [{path, file}], which the command finds.
    run(args, files, on_progress = () => {}) {
        const id = (this.last = (this.last ?? 0) + 1);
        return new Promise((resolve) => {
            this.waiting.set(id, {resolve, on_progress});
            this.worker.postMessage({id, args, files});
        });
    }
}
