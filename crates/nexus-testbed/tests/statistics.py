"""Writes the table that tests/it/statistics.rs holds the statistics against: what SciPy says of counts.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1
    venv/bin/python tests/statistics.py > tests/statistics.tsv

With --check it compares instead, to the last digit but two, and says what differs.
"""

import math
import sys

from scipy.stats import binomtest, fisher_exact

COUNTS = [
    (0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (2, 3), (0, 8), (1, 8), (4, 8), (7, 8), (8, 8), (0, 10), (3, 10), (10, 10),
    (5, 16), (16, 16), (0, 24), (11, 24), (23, 24), (24, 24), (1, 40), (40, 40), (37, 80), (80, 80), (1, 200), (100, 200),
    (199, 200), (3, 1000), (500, 1000), (1000, 1000),
]


def interval(seen, trials, method):
    if trials == 0:
        return 0.0, 1.0
    found = binomtest(seen, trials).proportion_ci(confidence_level=0.95, method=method)
    return found.low, found.high


def newcombe(a, n, b, m):
    if n == 0 or m == 0:
        return -1.0, 1.0
    p, q = a / n, b / m
    (p_low, p_high), (q_low, q_high) = interval(a, n, "wilson"), interval(b, m, "wilson")
    return p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)


def rows():
    for seen, trials in COUNTS:
        yield ("interval", seen, trials, *interval(seen, trials, "exact"))
    for a, n in COUNTS:
        for b, m in COUNTS:
            table = [[a, n - a], [b, m - b]]
            # SciPy gives 1 for a table with an empty row or column.
            p = [float(fisher_exact(table, alternative=side).pvalue) for side in ("greater", "less", "two-sided")]
            yield ("pair", a, n, b, m, *p, *newcombe(a, n, b, m))


def written():
    return ["\t".join(repr(float(v)) if isinstance(v, float) else str(v) for v in row) for row in rows()]


if sys.argv[1:] == ["--check"]:
    with open(__file__.removesuffix(".py") + ".tsv") as file:
        kept = file.read().splitlines()
    now = written()
    close = lambda a, b: a == b or math.isclose(float(a), float(b), rel_tol=1e-12, abs_tol=1e-15)
    odd = [(a, b) for a, b in zip(kept, now) if not all(map(close, a.split("\t"), b.split("\t")))]
    assert len(kept) == len(now) and not odd, odd[:3]
    print(len(now), "rows are as SciPy says")
else:
    print("\n".join(written()))
