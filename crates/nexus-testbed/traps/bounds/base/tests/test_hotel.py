import unittest

from hotel.seasons import is_high_season
from hotel.stays import is_occupied, nights


class Seasons(unittest.TestCase):
    def test_july_is_high_season(self):
        self.assertTrue(is_high_season((7, 20)))

    def test_it_begins_in_the_middle_of_june(self):
        self.assertTrue(is_high_season((6, 15)))
        self.assertFalse(is_high_season((6, 14)))

    def test_winter_is_not(self):
        self.assertFalse(is_high_season((1, 5)))


class Stays(unittest.TestCase):
    def test_a_room_is_taken_from_the_day_of_arrival(self):
        self.assertTrue(is_occupied((3, 1), (3, 1), (3, 5)))
        self.assertTrue(is_occupied((3, 3), (3, 1), (3, 5)))

    def test_it_is_free_before_and_after(self):
        self.assertFalse(is_occupied((2, 28), (3, 1), (3, 5)))
        self.assertFalse(is_occupied((3, 9), (3, 1), (3, 5)))

    def test_nights_are_counted(self):
        self.assertEqual(nights([(3, 1), (3, 2)], (3, 1), (3, 5)), 2)
