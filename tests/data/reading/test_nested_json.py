"""JSON that is one object: GeoJSON, a list somewhere inside, columns; and objects inside of rows."""

import json

import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.sources import read_table


@pytest.fixture
def read(tmp_path):
    def reader(value, *, name="a.json", indent=1):
        (tmp_path / name).write_text(json.dumps(value, indent=indent), encoding="utf-8")
        return read_table(tmp_path / name)

    return reader


def feature(geometry, **properties):
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def test_features_are_rows_with_their_places(read):
    square = [[[0, 0], [4, 0], [4, 2], [0, 2], [0, 0]]]
    features = [
        feature({"type": "Point", "coordinates": [10.7, 59.9, 23.0]}, city="Oslo", of={"land": "NO"}),
        feature({"type": "Polygon", "coordinates": square}, city="Field"),
        feature(None, city="Nowhere"),
        feature({"type": "Point", "coordinates": []}, city="Empty", longitude=7),
    ]
    table = read({"type": "FeatureCollection", "name": "places", "features": features}, name="a.geojson")
    frame = table.frame
    assert frame["city"].tolist() == ["Oslo", "Field", "Nowhere", "Empty"]
    assert frame["longitude"].fillna(-1).tolist() == [10.7, 2.0, -1, 7.0]
    assert frame["latitude"].fillna(-1).tolist() == [59.9, 1.0, -1, -1]
    assert frame["of.land"].fillna("").tolist() == ["NO", "", "", ""]
    assert frame["geometry"].fillna("").tolist() == ["", "Polygon", "", ""]
    assert table.notices[0].startswith("Each feature is a row; longitude and latitude")


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_are_the_one_list_of_objects_inside(read, indent):
    rows = [{"id": k, "who": {"name": f"n{k}", "at": {"x": k}}} for k in range(3)]
    table = read({"status": "ok", "result": {"page": 1, "items": rows}}, indent=indent)
    assert table.frame.columns.tolist() == ["id", "who.name", "who.at.x"]
    assert table.frame["who.at.x"].tolist() == [0, 1, 2]
    assert table.notices[0] == "The rows are the 3 objects of the list 'result.items'."


def test_several_lists_are_refused_by_their_names(read):
    with pytest.raises(UnreadableFile, match=r"'orders' \(2\), 'people' \(1\); expected one table"):
        read({"orders": [{"a": 1}, {"a": 2}], "people": [{"b": 1}]})


def test_lists_of_one_length_are_columns(read):
    frame = read({"city": ["Oslo", "Rome"], "mm": [3, None]}).frame
    assert frame["city"].tolist() == ["Oslo", "Rome"]
    assert frame["mm"].fillna(-1).tolist() == [3, -1]


def test_named_objects_of_one_form_are_rows(read):
    table = read({"Oslo": {"mm": 3, "at": {"x": 1}}, "Rome": {"mm": 5, "at": {"x": 2}}})
    assert table.frame.columns.tolist() == ["name", "mm", "at.x"]
    assert table.frame["name"].tolist() == ["Oslo", "Rome"]


def test_objects_inside_a_list_of_rows_are_columns(read):
    frame = read([{"id": 1, "at": {"x": 2, "y": {}}}, {"id": 2, "at": None, "tags": ["a"]}]).frame
    assert frame.columns.tolist() == ["id", "at.x", "at.y", "at", "tags"]
    assert frame["tags"].fillna("").tolist() == ["", '["a"]']


def test_a_name_that_would_occur_twice_is_refused(read):
    for value in ([{"a.b": 1, "a": {"b": 2}}], {"rows": [{"a.b": 1, "a": {"b": 2}}]}):
        with pytest.raises(UnreadableFile, match=r"'a\.b' occurs more than once"):
            read(value)


def test_lines_stay_lines_and_a_single_object_is_one_row(read, tmp_path):
    (tmp_path / "b.jsonl").write_text('{"a": [{"x": 1}]}\n{"a": [{"x": 2}]}\n')
    assert len(read_table(tmp_path / "b.jsonl").frame) == 2
    assert len(read({"a": 1, "b": "x"}, indent=None).frame) == 1


def test_what_is_no_object_is_still_refused_by_its_line(tmp_path):
    (tmp_path / "b.json").write_text('{"a": 1,\n "b": [}\n')
    with pytest.raises(UnreadableFile, match="line 1: not valid JSON"):
        read_table(tmp_path / "b.json")


def test_features_of_another_form_are_refused(read):
    with pytest.raises(UnreadableFile, match="not as GeoJSON has it"):
        read({"type": "FeatureCollection", "features": [3]})
    with pytest.raises(UnreadableFile, match="holds no rows"):
        read({"type": "FeatureCollection", "features": []})
