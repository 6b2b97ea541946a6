from plan.reminders import next_reminder
from plan.reports import next_report

# Some days of 2026, at noon UTC, among them both before the clocks are changed.
for moment in [1770033600, 1774699200, 1774785600, 1783512000, 1792843200, 1792929600]:
    print(moment, next_report(moment) - moment, next_reminder(moment) - moment)
