"""A bare service beside ours: FastAPI, an isolation forest, and shap's TreeExplainer; one row or many."""

from __future__ import annotations

import sys

import numpy as np
import shap
import uvicorn
from fastapi import FastAPI, Request
from sklearn.ensemble import IsolationForest

from benchmarks.service._rows import COLUMNS, ordinary_rows

forest = IsolationForest(random_state=0).fit(ordinary_rows(2_000).to_numpy())
explainer = shap.TreeExplainer(forest)
app = FastAPI()


async def rows_of(request: Request) -> np.ndarray:
    told = (await request.json())["rows"]
    return np.array([[row[name] for name in COLUMNS] for row in told])


@app.post("/v1/score")
async def score(request: Request) -> dict:
    return {"scores": (-forest.score_samples(await rows_of(request))).tolist()}


@app.post("/v1/explain")
async def explain(request: Request) -> dict:
    return {"values": explainer.shap_values(await rows_of(request)).tolist()}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
