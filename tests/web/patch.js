// What the page's worker finds changed, by its own address: reading ahead never ends (?stall), or fails (?fail).
const {search} = self.location;
if (search)
    ReadableStreamBYOBReader.prototype.read = Blob.prototype.arrayBuffer =
        () => search === '?fail' ? Promise.reject('no reading today') : new Promise(() => {});
