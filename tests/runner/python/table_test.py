"""Tables are lists, or DataFrames if pandas is installed."""
import sys
import types
import unittest
from unittest import mock

from support import retort


class FakePandas(types.ModuleType):
    class DataFrame:
        def __init__(self, rows, columns=None, index=None):
            self.rows, self.columns, self.index = rows, columns, index

        def _repr_html_(self):
            return "<table>"

    class Index(list):
        def __init__(self, items, name):
            super().__init__(items)
            self.name = name


class Tables(unittest.TestCase):
    table = retort.Table([{"a": 1, "b": 2}])
    confusion = retort.Confusion(("x", "y"), ((1, 2), (3, 4)))

    def test_table_is_a_list(self):
        self.assertEqual(self.table, [{"a": 1, "b": 2}])
        self.assertEqual(self.table.columns, ("a", "b"))
        self.assertEqual(retort.Table([], ["a"]).columns, ("a",))

    def test_missing_pandas_is_explained(self):
        with mock.patch("importlib.util.find_spec", return_value=None):
            self.assertIsNone(self.table._repr_html_())
            for thing in (self.table, self.confusion):
                with self.assertRaisesRegex(ModuleNotFoundError, "pip install pandas"):
                    thing.to_pandas()

    def test_table_becomes_a_data_frame_with_pandas(self):
        with mock.patch.dict(sys.modules, pandas=FakePandas("pandas")), mock.patch("importlib.util.find_spec"):
            frame = self.table.to_pandas()
            self.assertEqual((frame.rows, frame.columns), ([{"a": 1, "b": 2}], ["a", "b"]))
            self.assertEqual(self.table._repr_html_(), "<table>")
            frame = self.confusion.to_pandas()
            self.assertEqual((frame.rows, frame.index, frame.columns), ([[1, 2], [3, 4]], ["x", "y"], ["x", "y"]))
