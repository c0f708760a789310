#!/usr/bin/env python3
"""translate.py NAME FILE.ptx INDEX.c PART.c...: C that does what PTX says, for the engine of ptx.h.

A kernel becomes a function: registers are variables of as many bits, instructions calls of ops.h, accesses to memory
calls of ptx_at(). Where a thread waits for others the function returns, and goes on from there when it is called again;
the registers of such kernels lie in a struct. NAME is the module's, a ptx_module ptx_NAME. What the translator does not
know it refuses with its line; an instruction that ops.h does not have, the compiler refuses."""
import pathlib
import re
import sys

WIDTH = {'pred': 1, 'b8': 8, 'u8': 8, 's8': 8, 'b16': 16, 'u16': 16, 's16': 16, 'f16': 16, 'b32': 32, 'u32': 32, 's32': 32,
         'f32': 32, 'b64': 64, 'u64': 64, 's64': 64, 'f64': 64}
SPACES = {'global': 'PTX_GLOBAL', 'shared': 'PTX_SHARED', 'local': 'PTX_LOCAL', 'param': 'PTX_PARAM', 'const': 'PTX_GLOBAL'}
ORDERED = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}
UNORDERED = {'equ': '!(a < b || a > b)', 'neu': '!(a == b)', 'ltu': '!(a >= b)', 'leu': '!(a > b)', 'gtu': '!(a <= b)',
             'geu': '!(a < b)', 'num': 'a == a && b == b', 'nan': 'a != a || b != b'}
ARRAY = re.compile(r'\.(shared|global|const|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)?\.align\s+\d+\s+)?([\w$]+)(?:\[(\d+)\])?\s*(?:=\s*\{?([^;}]*)\}?)?;')


class Refused(Exception):
    pass


def aligned(n, to):
    return (n + to - 1) // to * to


def c_type(bits):
    return 'int' if bits == 1 else f'uint{bits}_t'


class Places:
    """Where instructions are from: the innermost function's line, from which lines it was called."""

    def __init__(self, text):
        self.files = {n: pathlib.PurePath(f).name for n, f in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)}
        self.callers = {}
        self.numbers = {'?': 0}
        self.now = 0

    def see(self, line):
        m = re.match(r'\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?', line)
        if not m:
            raise Refused(line)
        at, caller = m.groups()[:3], m.groups()[3:]
        self.callers[at] = caller if caller[0] else None
        words = []
        while at and len(words) < 16:
            words.append(f'{self.files[at[0]]}:{at[1]}')
            at = self.callers.get(at)
        self.now = self.numbers.setdefault(' from '.join(words), len(self.numbers))


class Kernel:
    def __init__(self, module, index, name, params, directives, body):
        self.module, self.name, self.function = module, name, f'ptx_{module.name}_{index}'
        self.symbols = dict(module.symbols)  # name: (space, its address there)
        self.widths, self.used, self.local, self.shared = {}, {}, 0, module.shared
        self.out, self.resumes, self.params = [], 0, []
        self.branch_targets = dict(re.findall(r'([\w$]+):\s*\.branchtargets\s+([^;]+);', body))
        threads = re.search(r'\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?', directives)
        self.max_threads = 1024
        if threads:
            self.max_threads = int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1)
        self.waits = re.search(r'\b(?:bar|barrier|shfl|vote)\.', body) is not None
        self.declare_params(params)
        for statement in self.statements(body):
            try:
                self.translate(statement)
            except (Refused, KeyError, ValueError, IndexError, TypeError) as e:
                sys.exit(f'translate.py: {name}: "{statement}" is not known: {e}')

    def declare_params(self, params):
        at = 0
        for p in filter(None, (p.strip() for p in params.split(','))):
            m = re.fullmatch(r'\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)?\.align\s+\d+\s+)?([\w$]+)(?:\[(\d+)\])?', p)
            size = WIDTH[m[2]] // 8 * int(m[4] or 1)
            at = aligned(at, int(m[1] or WIDTH[m[2]] // 8))
            self.params.append((at, size))
            self.symbols[m[3]] = ('param', at)
            at += size
        self.param_bytes = at

    def statements(self, body):
        self.scopes = []
        for line in body.split('\n'):
            line = line.strip()
            if re.match(r'\.loc\s', line):
                self.module.places.see(line)
                continue
            while line:
                label = re.match(r'([$\w]+):\s*', line)
                if line[0] in '{}':
                    if line[0] == '{':
                        self.scopes.append({})
                    else:
                        self.scopes.pop()
                    line = line[1:].strip()
                elif label:
                    if not line[label.end():].startswith('.branchtargets'):
                        self.out.append(f'{self.label(label[1])}:;')
                        line = line[label.end():]
                    else:
                        line = ''
                else:
                    if ';' not in line:
                        raise SystemExit(f'translate.py: {self.name}: "{line}" has no end')
                    one, line = line.split(';', 1)
                    line = line.strip()
                    yield one.strip()

    @staticmethod
    def label(name):
        return 'L' + name.replace('$', '_')

    # ---- operands ----

    def register(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.widths:
            return name
        m = re.fullmatch(r'(%[A-Za-z_]+)\d+', name)
        if m and m[1] in self.widths:
            return name
        return None

    def width(self, name):
        return self.widths[name] if name in self.widths else self.widths[re.match(r'%[A-Za-z_]+', name)[0]]

    def variable(self, name):
        register = self.register(name)
        if not register:
            raise Refused(f'no register {name}')
        c = re.sub(r'\W', '_', register.lstrip('%'))
        self.used[c] = self.width(register)
        return f'g->{c}' if self.waits else c

    def immediate(self, text, bits):
        m = re.fullmatch(r'0[fF]([0-9A-Fa-f]{8})', text) or re.fullmatch(r'0[dD]([0-9A-Fa-f]{16})', text)
        if m:
            if len(m[1]) * 4 != bits:
                raise Refused('a number of another type')
            return f'0x{m[1]}{"u" if bits == 32 else "ull"}'
        if bits == 1:
            return str(int(text, 0))
        n = int(text.rstrip('U'), 0) & ((1 << bits) - 1)
        return f'{hex(n)}ull' if bits == 64 else f'(uint{bits}_t){hex(n)}'

    SPECIAL = re.compile(r'%(tid|ntid|ctaid|nctaid)\.([xyz])')

    def value(self, text, bits, exact=True):
        """An operand as bits. What is stored or converted may lie in a wider register."""
        special = self.SPECIAL.fullmatch(text)
        if special:
            return f't->{special[1]}[{"xyz".index(special[2])}]'
        if text == '%laneid':
            return 't->lane'
        if text.startswith('!'):
            return f'!{self.value(text[1:], bits)}'
        if self.register(text):
            has = self.width(self.register(text))
            if has == bits:
                return self.variable(text)
            if has < bits or exact:
                raise Refused(f'{text} has {has} bits')
            return f'({c_type(bits)}){self.variable(text)}'
        if re.match(r'[\w$]', text) and not text[0].isdigit():
            return self.address_of(text)
        return self.immediate(text, bits)

    def address_of(self, text):
        name, _, plus = text.partition('+')
        space, at = self.symbols[name.strip()]
        window = 'PTX_MODULE + ' if space in ('global', 'const') else ''
        return f'({window}{at + int(plus or "0", 0)}ull)'

    def address(self, text):
        m = re.fullmatch(r'\[\s*([^\]+\s]+)\s*(?:\+\s*(-?\w+))?\s*\]', text)
        plus = int(m[2] or '0', 0)
        if self.register(m[1]):
            bits = self.width(self.register(m[1]))
            base = self.variable(m[1])
            if bits == 32:  # as an address of shared memory, from which nvcc may count back beyond 0 and on
                return f'(uint64_t)(uint32_t)({base} + {plus & 0xffffffff}u)'
            return f'{base} + {plus}ull' if plus >= 0 else f'{base} - {-plus}ull'
        return self.address_of(f'{m[1]}+{plus}')

    @staticmethod
    def operands(text):
        return [o.strip() for o in re.findall(r'\{[^}]*\}|\[[^\]]*\]|[^,{\[]+', text) if o.strip()]

    @staticmethod
    def vector(text):
        return [o.strip() for o in text.strip('{} ').split(',')] if text.startswith('{') else [text]

    # ---- instructions ----

    def translate(self, statement):
        if statement.startswith('.reg'):
            m = re.match(r'\.reg\s+\.(\w+)\s+(.*)', statement)
            for name in (n.strip() for n in m[2].split(',')):
                if self.scopes:
                    inner = f'{name}_of_{m[1]}'
                    self.scopes[-1][name] = inner
                    self.widths[inner] = WIDTH[m[1]]
                else:
                    self.widths[re.sub(r'<\d+>$', '', name)] = WIDTH[m[1]]
            return
        if statement.startswith(('.local', '.shared')):
            self.declare_array(statement + ';')
            return
        if statement.startswith('.pragma'):
            return
        m = re.match(r'(?:@(!?)(%?\w+)\s+)?([a-z][\w.:]*)\s*(.*)', statement, re.S)
        guard = f'if ({m[1]}{self.variable(m[2])}) ' if m[2] else ''
        code = self.instruction(m[3].split('.'), self.operands(m[4]))
        self.out.append(f'{guard}{{ {code} }}' if guard else code)

    def declare_array(self, text):
        space, align, kind, name, n, _ = ARRAY.match(text).groups()
        size, align = WIDTH[kind] // 8 * int(n or 1), int(align or WIDTH[kind] // 8)
        if space == 'local':
            self.symbols[name] = (space, aligned(self.local, align))
            self.local = aligned(self.local, align) + size
        else:
            self.symbols[name] = (space, aligned(self.shared, align))
            self.shared = aligned(self.shared, align) + size

    def instruction(self, op, args):
        handler = getattr(self, 'do_' + op[0], None)
        return handler(op, args) if handler else self.do_plain(op, args)

    def set(self, register, bits, expression):
        """A value of `bits` into a register that may be wider."""
        has = self.width(self.register(register))
        if has < bits:
            raise Refused(f'{register} has {has} bits')
        return f'{self.variable(register)} = {expression};'

    def do_plain(self, op, args):
        bits = WIDTH[op[-1]]
        wide = 2 * bits if 'wide' in op else bits
        count = [bits] * len(args)
        if op[0] in ('shl', 'shr'):
            count[2] = 32
        if op[0] == 'shf':
            count[3] = 32
        if op[0] == 'bfi':
            count[3:] = [32, 32]
        if op[0] == 'mad' and 'wide' in op:
            count[3] = wide
        check = ''
        if op[0] in ('div', 'rem') and op[-1][0] in 'us':
            check = f'if ({self.value(args[2], bits)} == 0) ptx_fault(t, {self.module.places.now}, "divides by 0"); '
        call = f'ptx_{"_".join(op)}({", ".join(self.value(a, b) for a, b in list(zip(args, count))[1:])})'
        return check + self.set(args[0], wide, call)

    def do_mov(self, op, args):
        bits = WIDTH[op[-1]]
        to, of = self.vector(args[0]), self.vector(args[1])
        if len(to) > 1:
            each = bits // len(to)
            value = self.value(of[0], bits)
            return ' '.join(self.set(r, each, f'({c_type(each)})({value} >> {k * each})') for k, r in enumerate(to) if r != '_')
        if len(of) > 1:
            each = bits // len(of)
            joined = ' | '.join(f'({c_type(bits)}){self.value(r, each)} << {k * each}' for k, r in enumerate(of))
            return self.set(to[0], bits, joined)
        return self.set(to[0], bits, self.value(of[0], bits))

    def do_selp(self, op, args):
        bits = WIDTH[op[-1]]
        return self.set(args[0], bits, f'{self.value(args[3], 1)} ? {self.value(args[1], bits)} : {self.value(args[2], bits)}')

    def compared(self, how, kind, a, b):
        bits = WIDTH[kind]
        a, b = self.value(a, bits), self.value(b, bits)
        if kind[0] == 'f':
            a, b = f'ptx_real_{bits}({a})', f'ptx_real_{bits}({b})'
            if how in UNORDERED:
                return re.sub(r'\b[ab]\b', lambda m: a if m[0] == 'a' else b, UNORDERED[how])
            return f'{a} < {b} || {a} > {b}' if how == 'ne' else f'{a} {ORDERED[how]} {b}'
        cast = f'(int{bits}_t)' if kind[0] == 's' else ''
        return f'{cast}{a} {ORDERED[how]} {cast}{b}'

    def do_setp(self, op, args):
        if 'ftz' in op or '|' in args[0]:
            raise Refused('no such comparison')
        truth = f'({self.compared(op[1], op[-1], args[1], args[2])})'
        if len(op) == 4:
            truth += {'and': ' && ', 'or': ' || '}[op[2]] + self.value(args[3], 1)
        return self.set(args[0], 1, truth)

    def do_cvt(self, op, args):
        to, of = op[-2:]
        value = self.value(args[1], WIDTH[of], exact=False)
        if to[0] == 'f' or of[0] == 'f':
            return self.set(args[0], WIDTH[to], f'ptx_{"_".join(op)}({value})')
        if len(op) > 3:
            raise Refused('no such conversion')
        return self.set(args[0], WIDTH[to], self.extended(to, f'(int{WIDTH[of]}_t){value}' if of[0] == 's' else value, args[0]))

    def extended(self, kind, value, register):
        """To the width of the register, with the sign of the type."""
        has = self.width(self.register(register))
        if kind[0] == 's' and has > WIDTH[kind]:
            return f'({c_type(has)})(int{WIDTH[kind]}_t)({value})'
        return f'({c_type(WIDTH[kind])})({value})'

    def do_cvta(self, op, args):
        space = next(s for s in ('global', 'shared', 'local', 'param', 'const') if s in op)
        value = self.value(args[1], 64)
        if space in ('global', 'const'):
            return self.set(args[0], 64, value)
        window = f'PTX_WINDOW({SPACES[space]})'
        return self.set(args[0], 64, f'{value} - {window}' if 'to' in op else f'{value} + {window}')

    @staticmethod
    def space_of(op):
        if 'shared::cta' in '.'.join(op):
            return 'PTX_SHARED'
        return next((SPACES[s] for s in op if s in SPACES), 'PTX_GENERIC')

    def at(self, op, address, n, kind):
        return f'ptx_at(t, {self.space_of(op)}, {self.address(address)}, {n}, {kind}, {self.module.places.now})'

    KNOWN_OF_ACCESS = {'global', 'shared', 'local', 'param', 'const', 'nc', 'v2', 'v4', 'volatile', 'weak', 'relaxed', 'cta', 'gpu',
                       'sys', 'shared::cta', 'param::entry'}

    def check_access(self, op):
        if not set(op[1:-1]) <= self.KNOWN_OF_ACCESS:
            raise Refused('no such access')

    def do_ld(self, op, args):
        self.check_access(op)
        bits, to = WIDTH[op[-1]], self.vector(args[0])
        code = f'const void *m = {self.at(op, args[1], bits // 8 * len(to), "PTX_READ")};'
        for k, r in enumerate(to):
            code += ' ' + self.set(r, bits, self.extended(op[-1], f'ptx_get_{bits}(m, {k})', r))
        return f'{{ {code} }}'

    def do_st(self, op, args):
        self.check_access(op)
        bits, of = WIDTH[op[-1]], self.vector(args[1])
        code = f'void *m = {self.at(op, args[0], bits // 8 * len(of), "PTX_WRITE")};'
        for k, r in enumerate(of):
            code += f' ptx_put_{bits}(m, {k}, {self.value(r, bits, exact=False)});'
        return f'{{ {code} }}'

    def do_atom(self, op, args):
        bits = WIDTH[op[-1]]
        what = [w for w in op[1:-1] if w in ('add', 'min', 'max', 'and', 'or', 'xor', 'exch', 'cas')]
        if len(what) != 1:
            raise Refused('no such change')
        of = ', '.join(self.value(a, bits) for a in args[2:])
        code = f'void *m = {self.at(op, args[1], bits // 8, "PTX_ATOMIC")}; const {c_type(bits)} was = ptx_get_{bits}(m, 0);'
        code += f' ptx_put_{bits}(m, 0, ptx_{what[0]}_{op[-1]}(was, {of}));'
        return f'{{ {code} {self.set(args[0], bits, "was") if args[0] != "_" else ""} }}'

    def do_red(self, op, args):
        return self.do_atom(op, ['_'] + args)

    def do_bra(self, op, args):
        return f'goto {self.label(args[0])};'

    def do_brx(self, op, args):
        cases = ''.join(f' case {k}: goto {self.label(l.strip())};' for k, l in enumerate(self.branch_targets[args[1]].split(',')))
        return f'switch ({self.value(args[0], 32)}) {{{cases} default: ptx_fault(t, {self.module.places.now}, "goes nowhere"); }}'

    def do_ret(self, op, args):
        return 'return PTX_ENDED;'

    do_exit = do_ret

    def do_trap(self, op, args):
        return f'ptx_fault(t, {self.module.places.now}, "a trap");'

    def wait(self, stop):
        self.resumes += 1
        return f't->at = {self.module.places.now}; t->pc = {self.resumes}; return {stop}; resume_{self.resumes}:;'

    def do_bar(self, op, args):
        if op[1:3] == ['warp', 'sync']:
            return f't->exchange = PTX_WARP_BARRIER; t->mask = {self.value(args[0], 32)}; ' + self.wait('PTX_AT_WARP')
        if 'sync' not in op or args != ['0'] or 'red' in op:
            raise Refused('no such barrier')
        return self.wait('PTX_AT_BARRIER')

    do_barrier = do_bar

    def do_shfl(self, op, args):
        to, _, truth = args[0].partition('|')
        value, b, c, mask = (self.value(a, 32) for a in args[1:5])
        code = f't->exchange = PTX_SHFL_{op[2].upper()}; t->value = {value}; t->b = {b}; t->c = {c}; t->mask = {mask}; '
        code += self.wait('PTX_AT_WARP') + ' ' + self.set(to, 32, 't->result')
        return code + (' ' + self.set(truth, 1, 't->truth') if truth else '')

    def do_vote(self, op, args):
        code = f't->exchange = PTX_VOTE_{op[2].upper()}; t->value = {self.value(args[1], 1)}; t->mask = {self.value(args[2], 32)}; '
        code += self.wait('PTX_AT_WARP') + ' '
        return code + (self.set(args[0], 32, 't->result') if op[2] == 'ballot' else self.set(args[0], 1, 't->truth'))

    def refuse(self, op, args):
        raise Refused('no such instruction')

    do_call = do_activemask = do_match = do_redux = do_isspacep = do_fence = do_membar = refuse

    # ---- C ----

    def text(self):
        names = sorted(self.used)
        head = ''
        if self.waits:
            members = ' '.join(f'{c_type(self.used[n])} {n};' for n in names) or 'int none;'
            head += f'struct {self.function}_registers {{ {members} }};\n'
        head += f'ptx_stop {self.function}(ptx_thread *t); /* {self.name} */\nptx_stop {self.function}(ptx_thread *t)\n{{\n'
        if self.waits:
            head += f'struct {self.function}_registers *const g = t->registers; (void)g;\n'
            head += f'_Static_assert(sizeof *g <= {self.register_bytes()}, "registers");\nswitch (t->pc) {{ case 0: break;'
            head += ''.join(f' case {k}: goto resume_{k};' for k in range(1, self.resumes + 1)) + ' }\n'
        else:
            head += ''.join(f'{c_type(self.used[n])} {n} = 0;\n' for n in names)
        return head + '\n'.join(self.out) + '\nreturn PTX_ENDED;\n}\n'

    def register_bytes(self):
        return 8 * len(self.used) + 16 if self.waits else 0

    def row(self):
        params = ', '.join(f'{{{at}, {n}}}' for at, n in self.params)
        pointer = f'(const ptx_param[]){{{params}}}' if params else '0'
        return (f'{{"{self.name}", {self.function}, {pointer}, {len(self.params)}, {self.param_bytes}, {self.local}, {self.shared}, '
                f'{self.register_bytes()}, {self.max_threads}, ptx_{self.module.name}_places, ptx_{self.module.name}_data, '
                f'{len(self.module.data)}}},')


class Module:
    def __init__(self, name, text):
        self.name, self.symbols, self.shared, self.data = name, {}, 0, bytearray()
        text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
        text = re.sub(r'//[^\n]*', '', text)
        self.places = Places(text)
        self.kernels = []
        entry = re.compile(r'\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{')
        outside, at = '', 0
        bodies = []
        for m in entry.finditer(text):
            end = self.end_of(text, m.end())
            outside += text[at:m.start()]
            at = end
            bodies.append((m[1], m[2], m[3], text[m.end():end - 1]))
        outside += text[at:]
        if re.search(r'\.func\b', re.sub(r'\.section[^{]*\{.*?\}', '', outside, flags=re.S)):
            sys.exit('translate.py: functions that are not inlined are not known')
        for m in ARRAY.finditer(outside):
            self.declare(*m.groups())
        for k, body in enumerate(bodies):
            self.kernels.append(Kernel(self, k, *body))

    @staticmethod
    def end_of(text, at):
        depth = 1
        for m in re.compile(r'[{}]').finditer(text, at):
            depth += 1 if m[0] == '{' else -1
            if depth == 0:
                return m.end()
        sys.exit('translate.py: a kernel has no end')

    def declare(self, space, align, kind, name, n, values):
        size = WIDTH[kind] // 8
        align = int(align or size)
        if space == 'shared':
            self.symbols[name] = (space, aligned(self.shared, align))
            self.shared = aligned(self.shared, align) + size * int(n or 1)
            return
        if values is None:
            sys.exit(f'translate.py: {name} has no value: variables of a module are not known but for constants')
        self.data += bytes(aligned(len(self.data), align) - len(self.data))
        self.symbols[name] = (space, len(self.data))
        numbers = [int(v, 0) & ((1 << 8 * size) - 1) for v in values.split(',') if v.strip()]
        self.data += b''.join(v.to_bytes(size, 'little') for v in numbers) + bytes(size * (int(n or 1) - len(numbers)))

    def index(self):
        places = ',\n'.join(f'"{p}"' for p in self.places.numbers)
        data = ', '.join(map(str, self.data)) or '0'
        declared = '\n'.join(f'ptx_stop {k.function}(ptx_thread *t);' for k in self.kernels)
        rows = '\n'.join(k.row() for k in self.kernels)
        return (f'#include "ptx.h"\n{declared}\nstatic const char *const ptx_{self.name}_places[] = {{\n{places}}};\n'
                f'static const unsigned char ptx_{self.name}_data[] = {{{data}}};\n'
                f'extern const ptx_module ptx_{self.name};\n'
                f'const ptx_module ptx_{self.name} = {{(const ptx_kernel[]){{\n{rows}\n{{0}}}}}};\n')


def main():
    name, source, index, *parts = sys.argv[1:]
    module = Module(name, pathlib.Path(source).read_text())
    texts = [['#include "ptx.h"\n#include "ops.h"\n'] for _ in parts]
    for k in sorted(module.kernels, key=lambda k: -len(k.out)):
        min(texts, key=lambda t: sum(map(len, t))).append(k.text())
    for path, text in zip(parts, texts):
        pathlib.Path(path).write_text('\n'.join(text))
    pathlib.Path(index).write_text(module.index())


main()
