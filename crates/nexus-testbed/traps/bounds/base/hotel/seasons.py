HIGH_SEASON = ((6, 15), (9, 10))


def is_high_season(day):
    """Whether a (month, day) is in the high season."""
    first, last = HIGH_SEASON
    return day >= first and day <= last
