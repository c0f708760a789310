#!/usr/bin/env python3
"""Prints spec_table.h: numbers, format specifications, and what Python's format() makes of them."""

SPECS = ['', 'd', '02d', '5', '<5', '>5d', '^7', '*^9', '=+8', '+', '+d', ' d', ' ', 'x', 'X', '#x', '#o', 'b',
         '#010b', '_b', '_x', 'o', ',', '_', '010,', '08,d', 'n', 'e', '.3f', '.0f', '%', '.1%', 'g', '06.2f',
         '10.3e', '.4f', '.3e', '.2E', 'F', 'G', '.10g', '#.3g', '#.0f', '.3', '.1', '.17', '012.3f', '+.2f',
         '-.2f', '0>10', 'x<12.1f', '\u00e9^11', '<012', '012,.1f', '020,.2f', '0=15,', '013,.1f', '#', '#.5', '.0e',
         '#.0e', '.0%', '1', '0', '00', '012_.2f', '.0', '.6', '+08.2f', ' 010.3e', '_.3f', ',.2%', '.2n', '10n']
SHORT = ['', '.3f', '.1', '.3', '012,.1f', 'e', 'G', '%', '#', '+', '#.3g', '0=15,', '^11', '.0f', '.17']
ALL = [7, 1234567, 0.6931471824645996, 12345.678901, -2.5]
SOME = [0, 0.0, -0.0, 1.0, 3.0517578125e-05, float('nan'), float('-inf'), float('inf'), 1e22, 9.9999e15, 0.00099996, 99.95, 1e300]


def quoted(text):
    return '"' + ''.join(c if ' ' <= c <= '~' and c not in '"\\' else ''.join(f'\\{b:03o}' for b in c.encode())
                         for c in text) + '"'


def value(v):
    if v != v:
        return 'NAN'
    return ('-' if v < 0 else '') + 'INFINITY' if v in (float('inf'), float('-inf')) else repr(v)


print('/* spec_table.h - made by spec_table.py. */')
for v in ALL + SOME:
    for spec in SPECS if v in ALL else SHORT:
        try:
            text = format(v, spec)
        except ValueError:
            text = None
        kind = 'INT' if isinstance(v, int) else 'FLOAT'
        print(f'{{PG_SPEC_{kind}, {value(v)}, {quoted(spec)}, {quoted(text) if text is not None else "NULL"}}},')
