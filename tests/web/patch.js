// What the page's worker finds changed, by its own address: ?stall, streams never answer.
if (self.location.search === '?stall')
    ReadableStreamBYOBReader.prototype.read = () => new Promise(() => {});
