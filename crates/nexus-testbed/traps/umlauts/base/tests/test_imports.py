import unittest

from imports import north, south


class North(unittest.TestCase):
    def test_a_line_is_a_name(self):
        self.assertEqual(north.names(b"Anna\nBert\n"), ["Anna", "Bert"])

    def test_empty_lines_are_left_out(self):
        self.assertEqual(north.names(b"Anna\r\n\r\n Bert "), ["Anna", "Bert"])


class South(unittest.TestCase):
    def test_a_line_is_a_name(self):
        self.assertEqual(south.names(b"Carla\nDino\n"), ["Carla", "Dino"])

    def test_an_empty_file_has_none(self):
        self.assertEqual(south.names(b""), [])
