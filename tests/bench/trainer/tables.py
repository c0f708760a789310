"""What the reports of plan.py and ranks.py share: numbers of milliseconds, tables of Markdown."""


def shown(ms):
    return '–' if ms is None else '%.3g' % ms if ms < 100 else '%.0f' % ms


def table(heads, rows):
    """Lines; the first column is of words, the others of numbers."""
    return ['| %s |' % ' | '.join(heads), '|---' + '|---:' * (len(heads) - 1) + '|', *('| %s |' % ' | '.join(r) for r in rows)]
