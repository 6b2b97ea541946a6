import unittest

from pricing.discounts import discounted
from pricing.refunds import balance


class Discounts(unittest.TestCase):
    def test_a_discount_is_taken_off(self):
        self.assertEqual(discounted(10.0, 2.504), 7.5)

    def test_no_discount_changes_nothing(self):
        self.assertEqual(discounted(19.99, 0), 19.99)


class Refunds(unittest.TestCase):
    def test_a_refund_is_taken_off(self):
        self.assertEqual(balance(10.0, 2.504), 7.5)

    def test_all_of_it_can_be_refunded(self):
        self.assertEqual(balance(5, 5), 0)
