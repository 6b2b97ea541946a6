from plan.zone import local, moment_of

DAY = 24 * 3600


def next_reminder(last):
    """When the reminder after one at this moment is sent: on the next day, at the same time of the office's clocks."""
    return moment_of(local(last) + DAY)
