"""The local time of the office, an hour before UTC, two in summer 2025 and 2026."""

HOUR = 3600
# When summer time begins and ends, in seconds since 1970: on the last Sundays of March and October, at 01:00 UTC.
SUMMERS = [(1743296400, 1761440400), (1774746000, 1792890000)]


def offset(moment):
    """How far the office's clocks are ahead of UTC at a moment, in seconds."""
    is_summer = any(begin <= moment < end for begin, end in SUMMERS)
    return 2 * HOUR if is_summer else HOUR


def local(moment):
    """What the office's clocks show at a moment, as seconds."""
    return moment + offset(moment)


def moment_of(shown):
    """The moment at which the office's clocks show this."""
    guess = shown - HOUR
    return shown - offset(guess if offset(guess) == offset(guess - HOUR) else guess - HOUR)
