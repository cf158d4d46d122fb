"""Edges as people have them: pairs, places, GeoJSON, networkx, matrices."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.data.graphs import knn_graph
from tellwhy.kinds.graph import explain_graph
from tellwhy.views.cli.main import app

networkx = pytest.importorskip("networkx")


@pytest.fixture(scope="module")
def flats():
    """Flats whose rent rises from west to east, one of which is dear for its place."""
    rng = np.random.default_rng(3)
    longitude, latitude = rng.uniform(13.0, 13.6, 300), rng.uniform(52.3, 52.7, 300)
    rent = 500 + 900 * (longitude - 13) + 8 * rng.normal(size=300)
    rent[17] += 120
    names = [f"f{i}" for i in range(300)]
    return pd.DataFrame({"id": names, "longitude": longitude, "latitude": latitude, "rent": rent})


def first(found):
    anomaly = found.run.anomalies[0]
    return anomaly.row, anomaly.reasons[0].feature, anomaly.reasons[0].holds


def test_places_networkx_matrices_and_pairs_say_the_same(flats, tmp_path):
    degrees = np.radians(flats[["latitude", "longitude"]].to_numpy())
    across = np.cos(degrees[:, 0])
    globe = [across * np.cos(degrees[:, 1]), across * np.sin(degrees[:, 1]), np.sin(degrees[:, 0])]
    pairs = knn_graph(np.column_stack(globe), 6).edges()
    named = pd.DataFrame({"a": [f"f{i}" for i in pairs[:, 0]], "b": [f"f{j}" for j in pairs[:, 1]]})
    named.to_csv(tmp_path / "edges.csv", index=False)
    graph = networkx.Graph()
    graph.add_edges_from(named.iloc[::-1].itertuples(index=False))
    matrix = networkx.to_scipy_sparse_array(graph, nodelist=list(flats["id"]))
    bare = flats[["id", "rent"]]
    ways = [
        explain_graph(flats, edges="near:longitude,latitude", id_column="id"),
        explain_graph(flats, edges="near", id_column="id"),
        explain_graph(bare, edges=tmp_path / "edges.csv", id_column="id"),
        explain_graph(bare, edges=graph, id_column="id"),
        explain_graph(bare, edges=matrix, id_column="id"),
    ]
    for found in ways:
        assert first(found) == (17, "rent", True)
        np.testing.assert_allclose(found.run.scores, ways[0].run.scores)
    assert ways[3].run.settings["edges"] == "a Graph"


def test_a_model_of_places_judges_other_places(flats, tmp_path):
    model = tellwhy.fit(flats, kind="graph", edges="near:longitude,latitude:8", id_column="id")
    again = tellwhy.load(tellwhy.save(model, tmp_path / "m.tellwhy"))
    own = tellwhy.judge(again, flats)
    np.testing.assert_array_equal(own.scores, tellwhy.judge(model, flats).scores)
    others = flats.sample(120, random_state=0).reset_index(drop=True).assign(id=[f"g{i}" for i in range(120)])
    others.loc[5, "rent"] += 200
    assert tellwhy.judge(again, others).anomalies[0].row == 5


def test_geojson_on_the_command_line(flats, tmp_path):
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [row.longitude, row.latitude]},
            "properties": {"id": row.id, "rent": row.rent},
        }
        for row in flats.itertuples()
    ]
    path = tmp_path / "flats.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["explain", str(path), "--edges", "near", "--id", "id", "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["anomalies"][0]["row"] == 17


def test_what_is_no_place_is_told(flats):
    with pytest.raises(InvalidInput, match="there is no column 'east'"):
        explain_graph(flats, edges="near:east,north")
    with pytest.raises(InvalidInput, match=r"near:COLUMN,COLUMN:NUMBER; got near:longitude,latitude:0"):
        explain_graph(flats, edges="near:longitude,latitude:0")
    with pytest.raises(InvalidInput, match="has 0 rows with numbers in id"):
        explain_graph(flats, edges="near:id")
    with pytest.raises(InvalidInput, match="has the node 'x', which no row"):
        explain_graph(flats, edges=networkx.Graph([("x", "f1")]), id_column="id")
