import os
import tempfile
import unittest

from service import secrets, settings


def written(text):
    handle, path = tempfile.mkstemp()
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


class Settings(unittest.TestCase):
    def test_a_file_is_read_over_the_defaults(self):
        found = settings.load(written("host = example.org\n\nretries=5\n"))
        self.assertEqual(found, {"host": "example.org", "retries": "5"})

    def test_without_a_file_the_defaults_hold(self):
        self.assertEqual(settings.load("/nonexistent/settings"), {"retries": "3"})


class Secrets(unittest.TestCase):
    def test_a_file_is_read(self):
        self.assertEqual(secrets.load(written("token=a=b\n")), {"token": "a=b"})

    def test_without_a_file_there_are_none(self):
        self.assertEqual(secrets.load("/nonexistent/secrets"), {})
