// usage: node output.mjs WEB [SEED]
//
// Files that tools write (Output in WEB/system.js) beside plain arrays: thousands of writes, reads and cuts at random places, within
// chunks, over several and beyond the end, of three files in one store whose chunks are given back and taken again; then the ranges of
// which a browser makes the files. Chunks that follow each other in the store are moved in one call, those that do not are not.
import {pathToFileURL} from 'node:url';
import path from 'node:path';

const [, , web, seed = String(Date.now() % 1e6)] = process.argv;
const {CHUNK, MemoryStore, Output} = await import(pathToFileURL(path.resolve(web, 'system.js')));

let state = Number(seed) + 1;
const below = (n) => {
    state = (state * 48271) % 2147483647;
    return state % n;
};

// As a file of the disk: reading beyond its end falls short.
class ShortStore extends MemoryStore {
    read(at, bytes) {
        const n = Math.max(0, Math.min(bytes.length, (this.end ?? 0) - at));
        return super.read(at, bytes.subarray(0, n));
    }
    write(at, bytes) {
        this.end = Math.max(this.end ?? 0, at + bytes.length);
        return super.write(at, bytes);
    }
}

class Beside {
    constructor(store) {
        Object.assign(this, {file: new Output(store), store, bytes: new Uint8Array(0)});
    }
    grow(n) {
        const more = new Uint8Array(Math.max(n, this.bytes.length));
        more.set(this.bytes);
        this.bytes = more;
    }
    write(at, n) {
        const some = Uint8Array.from({length: n}, () => 1 + below(255));
        this.file.write(at, some);
        this.grow(at + n);
        this.bytes.set(some, at);
    }
    resize(n) {
        this.file.resize(n);
        this.grow(n);
        this.bytes = this.bytes.slice(0, n);
    }
    same(at, n, what) {
        const got = new Uint8Array(n).fill(7), want = this.bytes.subarray(at, at + n);
        if (this.file.read(at, got) !== want.length || Buffer.compare(got.subarray(0, want.length), want))
            throw new Error(`seed ${seed}: ${what}: ${n} bytes at ${at} are others`);
    }
    async whole() {
        this.same(0, this.bytes.length + 5, 'all of it');
        const [blob] = await this.store.blobs([this.file.ranges()]), got = new Uint8Array(await blob.arrayBuffer());
        if (this.file.size !== this.bytes.length || Buffer.compare(got, this.bytes))
            throw new Error(`seed ${seed}: its ranges are another file`);
    }
}

const place = () => below(2) ? below(6 * CHUNK) : below(6) * CHUNK;
const length = () => [below(100), CHUNK, below(3 * CHUNK), 0][below(4)];
let n_done = 0;
for (const kind of [MemoryStore, ShortStore])
    for (let round = 0; round < 12; round++) {
        const store = new kind(1 << 30), files = [0, 1, 2].map(() => new Beside(store));
        for (let k = 0; k < 60; k++, n_done++) {
            const f = files[below(3)], what = below(8);
            if (what < 4)
                f.write(place(), length());
            else if (what < 6)
                f.same(place(), length(), 'a piece');
            else if (what === 6)
                f.resize(place());
            else if (below(4) === 0) {
                f.file.drop();
                files[files.indexOf(f)] = new Beside(store);
            }
        }
        for (const f of files)
            await f.whole();
    }
console.log(`outputs: ${n_done} writes, reads and cuts as of plain arrays (seed ${seed})`);
