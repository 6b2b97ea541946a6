import unittest

from plan.reminders import next_reminder
from plan.reports import next_report

# 2026-02-02 07:00 UTC.
MONDAY = 1770015600
DAY = 24 * 3600


class Reports(unittest.TestCase):
    def test_the_next_one_is_on_the_next_day(self):
        self.assertEqual(next_report(MONDAY), MONDAY + DAY)

    def test_a_week_has_seven(self):
        moment = MONDAY
        for _ in range(7):
            moment = next_report(moment)
        self.assertEqual(moment, MONDAY + 7 * DAY)


class Reminders(unittest.TestCase):
    def test_the_next_one_is_on_the_next_day(self):
        self.assertEqual(next_reminder(MONDAY + 3600), MONDAY + 3600 + DAY)
