import unittest

from orders.accept import is_accepted
from orders.returns import is_taken_back


class Accept(unittest.TestCase):
    def test_a_good_order_is_accepted(self):
        found = []
        self.assertTrue(is_accepted({"amount": 5, "address": "Main St 1", "stock": 3}, found))
        self.assertEqual(found, ["amount: ok", "address: ok", "stock: ok"])

    def test_an_order_without_stock_is_not(self):
        found = []
        self.assertFalse(is_accepted({"amount": 5, "address": "Main St 1", "stock": 0}, found))
        self.assertEqual(found, ["amount: ok", "address: ok", "stock: bad"])

    def test_an_order_of_nothing_is_not(self):
        self.assertFalse(is_accepted({"amount": 0, "address": "Main St 1", "stock": 3}, []))


class Returns(unittest.TestCase):
    def test_a_new_item_is_taken_back(self):
        found = []
        self.assertTrue(is_taken_back({"receipt": 1, "days": 3}, found))
        self.assertEqual(found, ["receipt: ok", "age: ok"])

    def test_an_old_one_is_not(self):
        self.assertFalse(is_taken_back({"receipt": 1, "days": 90}, []))
