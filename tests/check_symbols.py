#!/usr/bin/env python3
"""Fails unless libpg.so exports exactly the functions that the public headers declare with PG_API,
and none whose name PostgreSQL's static libraries define too (both may meet in one program). The file of symbols of the Debian
package lists the same ones."""
import pathlib
import re
import subprocess
import sys

POSTGRES = {  # nm libpgcommon.a libpgport.a | grep ' T pg_' of PostgreSQL 15, without longer families
    'pg_malloc', 'pg_malloc0', 'pg_malloc_extended', 'pg_realloc', 'pg_free', 'pg_strdup',
    'pg_parse_json', 'pg_log_generic', 'pg_log_generic_v', 'pg_logging_init', 'pg_checksum_init',
    'pg_checksum_update', 'pg_checksum_final', 'pg_checksum_type_name', 'pg_printf', 'pg_snprintf',
    'pg_fprintf', 'pg_sprintf', 'pg_strerror', 'pg_strsignal', 'pg_qsort', 'pg_usleep', 'pg_mkdir_p',
    'pg_strong_random', 'pg_hmac_init', 'pg_md5_hash', 'pg_sha256_init', 'pg_encoding_mblen',
    'pg_get_line', 'pg_strip_crlf', 'pg_fseeko', 'pg_lltoa', 'pg_strcasecmp', 'pg_toupper',
    'pg_tolower', 'pg_utf8_islegal', 'pg_valid_server_encoding', 'pg_vprintf', 'pg_vsnprintf',
    'pg_check_dir', 'pg_set_noblock', 'pg_localtime', 'pg_gmtime', 'pg_prng_seed', 'pg_popcount',
}

library, headers, listed = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
text = '\n'.join(p.read_text() for p in [*headers.glob('*.h'), *headers.glob('*.h.in')])
text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
declared = set(re.findall(r'^PG_API\b[^;]*?\b(pg_\w+)\s*\(', text, re.M))
nm = subprocess.run(['nm', '-D', '--defined-only', library], capture_output=True, text=True, check=True)
exported = {name for name in (line.split()[-1].split('@')[0] for line in nm.stdout.splitlines())
            if not name.startswith('_')}  # linkers and sanitizers add their own
problems = [f'{n}: exported, but no public header declares it' for n in sorted(exported - declared)]
problems += [f'{n}: declared, but not exported' for n in sorted(declared - exported)]
packaged = set(re.findall(r'^ (pg_\w+)@', listed.read_text(), re.M))
problems += [f'{n}: in {listed.name}, or declared, but not in both' for n in sorted(declared ^ packaged)]
problems += [f'{n}: a name of PostgreSQL' for n in sorted(declared & POSTGRES)]
print('\n'.join(problems) or f'{len(exported)} symbols')
sys.exit(bool(problems))
