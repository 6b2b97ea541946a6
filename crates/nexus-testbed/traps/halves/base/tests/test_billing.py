import unittest

from billing.fees import fee
from billing.tax import tax


class Tax(unittest.TestCase):
    def test_whole_cents(self):
        self.assertEqual(tax(1000, 19), 190)

    def test_it_is_rounded_to_the_nearest_cent(self):
        self.assertEqual(tax(333, 19), 63)
        self.assertEqual(tax(99, 7), 7)

    def test_nothing_is_taxed_with_nothing(self):
        self.assertEqual(tax(0, 19), 0)


class Fees(unittest.TestCase):
    def test_two_percent(self):
        self.assertEqual(fee(5000), 100)

    def test_it_is_rounded_to_the_nearest_cent(self):
        self.assertEqual(fee(129), 3)
        self.assertEqual(fee(110), 2)
