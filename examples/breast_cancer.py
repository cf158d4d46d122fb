"""The second example, on embedded data: which tumours differ most from the benign ones, and why?

Writes scikit-learn's breast-cancer table to a CSV file, then does what this command does:

    tellwhy explain breast_cancer.csv --normal diagnosis=benign --label diagnosis=malignant --out demo-run/run
"""

from pathlib import Path

from sklearn.datasets import load_breast_cancer

from tellwhy.views.cli import app


def write_table(folder: Path) -> Path:
    """Write the table with its diagnosis as a column of words."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data.assign(diagnosis=data.target.map(dict(enumerate(data.target_names))))
    folder.mkdir(exist_ok=True)
    path = folder / "breast_cancer.csv"
    frame.to_csv(path, index=False)
    return path


if __name__ == "__main__":
    table = write_table(Path("demo-run"))
    out = str(table.parent / "run")
    app(
        [
            "explain",
            str(table),
            "--normal",
            "diagnosis=benign",
            "--label",
            "diagnosis=malignant",
            "--out",
            out,
        ]
    )
