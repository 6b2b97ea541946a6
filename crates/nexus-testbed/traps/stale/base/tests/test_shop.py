import unittest

from shop import prices


class Quotes(unittest.TestCase):
    def test_a_price_is_by_quantity(self):
        self.assertEqual(prices.quote("bolt", 10), 200)

    def test_another_currency(self):
        self.assertEqual(prices.quote("nut", 40, currency="USD"), 220)

    def test_the_trade_pays_less(self):
        self.assertEqual(prices.quote("plate", 2, customer="trade"), 240)

    def test_many_are_cheaper(self):
        self.assertEqual(prices.quote("nut", 100), 450)

    def test_it_says_the_same_again(self):
        self.assertEqual(prices.quote("plate", 3), prices.quote("plate", 3))
