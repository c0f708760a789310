"""States of a disk that a kill or a power loss could leave, from the record of one save (faultrun -r).

After a kill the page cache is whole: what a prefix of the calls did is there, of a write that was under way perhaps half,
unless it lies in one sector.
After a power loss what had been synced is there. Of the rest a random part is: of a folder's changes the first ones
(journals keep them in order, those of other folders aside); of a file nothing, all, some of the writes, or some of
their 512-byte sectors, each with or without the new size. So a file can have its new name and none of its data. Only fsync of
a folder makes its names durable, that of a file does not. Fsync of what lies on shared mappings is unknown here. It
approximates what file systems do."""
import os
import random
import re


class File:
    def __init__(self, data=b''):
        self.live, self.disk, self.pending = bytearray(data), bytearray(data), []

    def change(self, op):
        self.pending.append(op)
        self.apply(self.live, op)

    @staticmethod
    def apply(data, op):
        """op: (offset, bytes), or (size,)."""
        if len(op) == 1:
            del data[op[0]:]
            data.extend(bytes(op[0] - len(data)))
            return
        at, more = op
        data.extend(bytes(max(0, at - len(data))))
        data[at:at + len(more)] = more

    def sync(self):
        self.disk, self.pending = bytearray(self.live), []

    def lost(self, dice):
        """What a disk may hold."""
        data, style = bytearray(self.disk), dice.choice(('nothing', 'all', 'writes', 'sectors'))
        for op in self.pending:
            if style == 'nothing':
                continue
            if len(op) == 2 and style == 'sectors':
                for q in range(0, len(op[1]), 512):
                    if dice.random() < 0.5:
                        self.apply(data, (op[0] + q, op[1][q:q + 512]))
            elif style == 'all' or dice.random() < 0.5:
                self.apply(data, op)
        return bytes(data)


class Folder:
    """live and disk: File or Folder by name; pending: ('set', name, node) or ('del', name) in groups that happen at once."""

    def __init__(self):
        self.live, self.disk, self.pending = {}, {}, []

    def change(self, *group):
        self.pending.append(group)
        self.apply(self.live, group)

    @staticmethod
    def apply(names, group):
        for what, name, *node in group:
            if what == 'set':
                names[name] = node[0]
            else:
                names.pop(name, None)

    def sync(self):
        self.disk, self.pending = dict(self.live), []

    def lost(self, dice):
        names = dict(self.disk)
        for group in self.pending[:dice.randrange(len(self.pending) + 1)]:
            self.apply(names, group)
        return names


def flatten(folder, names_of, data_of, prefix=''):
    """A tree (saves.tree) of what the folder holds."""
    out = {}
    for name, node in names_of(folder).items():
        if isinstance(node, Folder):
            out[prefix + name] = None
            out.update(flatten(node, names_of, data_of, f'{prefix}{name}/'))
        else:
            out[prefix + name] = data_of(node)
    return out


class Disk:
    """A folder's content to which recorded calls are applied."""

    def __init__(self, before):
        self.root = Folder()
        for path in sorted(before):
            above, name = self.find(path)
            above.live[name] = Folder() if before[path] is None else File(before[path])
        for node in self.all_nodes(self.root):
            node.sync()

    def all_nodes(self, node):
        yield node
        if isinstance(node, Folder):
            for child in node.live.values():
                yield from self.all_nodes(child)

    def find(self, path):
        """(the folder that holds it, its last name)."""
        node, parts = self.root, path.split('/')
        for part in parts[:-1]:
            if part not in node.live:  # of threads, a call can be written down before one that it needed
                node.change(('set', part, Folder()))
            node = node.live[part]
        return node, parts[-1]

    def node(self, path):
        if path == '.':
            return self.root
        above, name = self.find(path)
        return above.live.get(name)

    def move(self, old, new, exchange):
        (a, x), (b, y) = self.find(old), self.find(new)
        node, other = a.live[x], b.live.get(y)
        away = ('set', x, other) if exchange else ('del', x)
        if a is b:
            a.change(away, ('set', y, node))
        else:
            b.change(('set', y, node))
            a.change(away)

    def do(self, op):
        kind, path = op[0], op[1]
        above, name = self.find(path)
        node = self.node(path)
        if kind in ('open', 'opentrunc') and node is None:
            above.change(('set', name, File()))
        elif kind == 'opentrunc':
            node.change((0,))
        elif kind == 'mkdir' and node is None:
            above.change(('set', name, Folder()))
        elif kind in ('write', 'trunc') and node is not None:  # None: it has no name any more
            node.change(op[2:])
        elif kind == 'falloc' and node is not None and op[2] > len(node.live):
            node.change((op[2],))
        elif kind in ('rename', 'exchange'):
            self.move(path, op[2], kind == 'exchange')
        elif kind == 'link':
            to, y = self.find(op[2])
            to.change(('set', y, node))
        elif kind == 'unlink':
            above.change(('del', name))
        elif kind == 'fsync' and node is not None:
            node.sync()
        elif kind == 'syncfs':
            for n in list(self.all_nodes(self.root)):
                n.sync()

    def killed(self):
        return flatten(self.root, lambda f: f.live, lambda f: bytes(f.live))

    def without_power(self, dice):
        return flatten(self.root, lambda f: f.lost(dice), lambda f: f.lost(dice))


def read_record(record, folder):
    """The calls of a record that changed something in the folder: (kind, relative path, ...)."""
    plain = lambda s: re.sub('%([0-9a-f]{2})', lambda m: chr(int(m.group(1), 16)), s)  # noqa: E731
    relative = lambda s: os.path.relpath(plain(s), folder)  # noqa: E731
    data = (record / 'data').read_bytes()
    for line in (record / 'log').read_text().splitlines():
        _, kind, path, *rest = line.split(' ')
        path = relative(path)
        if kind == 'syncfs':
            yield kind, '.'
        elif path.startswith('..') and kind not in ('rename', 'link'):
            continue
        elif kind == 'write':
            at, n, begin = map(int, rest)
            yield kind, path, at, data[begin:begin + n]
        elif kind == 'trunc':
            yield kind, path, int(rest[0])
        elif kind == 'falloc':
            mode, at, n = map(int, rest)
            if not mode & 1:  # FALLOC_FL_KEEP_SIZE
                yield kind, path, at + n
        elif kind in ('rename', 'exchange', 'link'):
            yield kind, path, relative(rest[0])
        else:
            yield kind, path


def after_kill(before, ops):
    """(what was done, tree) of every prefix, and of every write that is done by half."""
    disk = Disk(before)
    for i, op in enumerate([*ops, None]):
        yield f'{i} calls', disk.killed()
        if op and op[0] == 'write' and len(op[3]) > 1 and op[2] // 512 != (op[2] + len(op[3]) - 1) // 512:
            half = Disk(before)
            for done in ops[:i]:
                half.do(done)
            half.do((*op[:3], op[3][:len(op[3]) // 2]))
            yield f'{i} calls and half a write', half.killed()
        if op:
            disk.do(op)


def after_power_loss(before, ops, n_subsets, seed=0):
    """(what was done, tree): n_subsets for every prefix."""
    disk = Disk(before)
    for i, op in enumerate([*ops, None]):
        for k in range(n_subsets):
            yield f'{i} calls, subset {k}', disk.without_power(random.Random(f'{seed} {i} {k}'))
        if op:
            disk.do(op)


def after_lost_writes(before, ops, path):
    """(what was done, tree) of one file that is changed in place: at every prefix, each choice of what was not synced, in any
    order that a disk may take it, for no two of these changes touch the same bytes."""
    disk = Disk(before)
    for i, op in enumerate([*ops, None]):
        file = disk.node(path)
        for chosen in range(1 << len(file.pending)):
            data = bytearray(file.disk)
            for k, change in enumerate(file.pending):
                if chosen >> k & 1:
                    File.apply(data, change)
            yield f'{i} calls, of {len(file.pending)} changes the set {chosen:b}', {**before, path: bytes(data)}
        if op:
            disk.do(op)
