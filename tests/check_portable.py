#!/usr/bin/env python3
"""usage: check_portable.py CC FILE...

Of a build with -Dportable=true: what FILEs (libpg.so, programs) want of the C library is declared by its headers in their strict POSIX.1-2008 mode,
or is one of a few functions that macOS has as well. Prints every other name. Skipped (77) where nm knows no versions of symbols."""
import pathlib
import re
import subprocess
import sys
import tempfile

HEADERS = '''aio arpa/inet assert complex ctype dirent dlfcn errno fcntl fenv float fnmatch ftw glob grp iconv inttypes iso646 langinfo libgen limits locale
math monetary mqueue net/if netdb netinet/in netinet/tcp nl_types poll pthread pwd regex sched search semaphore setjmp signal spawn stdarg stdbool
stddef stdint stdio stdlib string strings sys/ipc sys/mman sys/resource sys/select sys/socket sys/stat sys/statvfs sys/time sys/times
sys/types sys/uio sys/un sys/utsname sys/wait syslog tar termios time unistd utime wchar wctype wordexp'''.split()
# Not of POSIX.1-2008, and described by macOS' own manual pages: flock(2), ioctl(2), madvise(2), getentropy(2), dladdr(3),
# memmem(3), strcasestr(3), strtod_l(3).
MACOS = {'flock', 'ioctl', 'madvise', 'getentropy', 'dladdr', 'memmem', 'strcasestr', 'strtod_l'}
# What gcc and glibc put in place of a standard function, and what starts a program.
HIDDEN = {'__errno_location': 'errno', '__xpg_strerror_r': 'strerror_r', '__sigsetjmp': 'sigsetjmp', '__fdelt_chk': 'FD_SET', '__ctype_b_loc': 'isalpha',
          '__ctype_tolower_loc': 'tolower', '__ctype_toupper_loc': 'toupper', '__longjmp_chk': 'longjmp', '__xpg_basename': 'basename', 'sincos': 'sin', 'sincosf': 'sinf'}
START = re.compile(r'__libc_start_main|__cxa_\w+|__gmon_start__|__stack_chk_fail|__tls_get_addr|_ITM_\w+|__register_atfork|__assert_fail|__fprintf_chk|__isinff?|__isnanf?|__finitef?')


def standard(name):
    m = re.fullmatch(r'__(?:isoc\d+_)?(\w+?)(?:_chk)?', name)
    name = HIDDEN.get(name, m.group(1) if m else name)
    return re.sub(r'64(_2)?$|(?<=open|enat)_2$', '', name)  # files of any size; checked arguments


def undeclared(cc, names):
    """Those that no header declares."""
    with tempfile.TemporaryDirectory() as d:
        probe = pathlib.Path(d, 'probe.c')
        head = ''.join(f'#if __has_include(<{h}.h>)\n#include <{h}.h>\n#endif\n' for h in HEADERS)
        probe.write_text(head + ''.join(f'void use_{i}(void) {{ (void){n}; }}\n' for i, n in enumerate(names)))
        r = subprocess.run([*cc, '-std=c11', '-D_POSIX_C_SOURCE=200809L', '-D_XOPEN_SOURCE=700', '-fsyntax-only', '-fmax-errors=0', probe], capture_output=True,
                           text=True)
    return {m for m in re.findall("error: [‘']?(\\w+)[’']? undeclared", r.stderr.replace('‘', "'").replace('’', "'"))}


cc, files = sys.argv[1].split(), sys.argv[2:]
wants = {}
for path in files:
    for line in subprocess.run(['nm', '-D', '--undefined-only', path], capture_output=True, text=True, check=True).stdout.splitlines():
        m = re.search(r'\b(\w+)@+GLIBC_', line)
        if m and not START.fullmatch(m.group(1)):
            wants.setdefault(standard(m.group(1)), set()).add(pathlib.Path(path).name)
if not wants:
    print('nm shows no versions of symbols')
    sys.exit(77)
others = sorted(undeclared(cc, sorted(wants)) - MACOS)
for name in others:
    print(f'{name}: neither POSIX.1-2008 nor known on macOS; wanted by {", ".join(sorted(wants[name]))}')
print(f'{len(wants) - len(others)} of {len(wants)} names')
sys.exit(bool(others))
