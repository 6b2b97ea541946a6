from plan.next_day import a_day_after


def next_report(last):
    """When the report after one at this moment is sent: on the next day, at the same time of the office's clocks."""
    return a_day_after(last)
