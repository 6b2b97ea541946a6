from plan.reminders import next_reminder
from plan.reports import next_report

# 2025: the day before summer time begins, the one before it ends, and one in July, at 05:30 UTC.
MOMENTS = [1743226200, 1761370200, 1752125400]
print("report", *(next_report(moment) - moment for moment in MOMENTS))
print("reminder", *(next_reminder(moment) - moment for moment in MOMENTS))
