from plan.zone import local, moment_of

DAY = 24 * 3600


def a_day_after(moment):
    """The next day, at the same time of the office's clocks."""
    return moment_of(local(moment) + DAY)
