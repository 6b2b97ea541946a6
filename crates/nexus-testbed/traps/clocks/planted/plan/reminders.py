from plan.next_day import a_day_after


def next_reminder(last):
    """When the reminder after one at this moment is sent: on the next day, at the same time."""
    return a_day_after(last)
