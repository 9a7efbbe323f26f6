"""`fedsub models`: the papers' kinds."""

from fedsub_papers.tests.models.test_published import SIZES
from tests.fedsub.commands.calls import Call


def test_kinds_that_take_no_such_samples_are_named_on_one_line(fedsub: Call) -> None:
    code, out, err = fedsub("models", "--vocabulary", "500")
    assert (code, err) == (0, "")
    _, _, row, others = out.splitlines()
    assert row.split()[:2] == ["fasttext", f"{10 * 500 + 11 * 6:,}"]
    assert "64 token ids below 500" in row
    assert others.startswith("not for such samples: mlp, linear, cnn1d, har-cnn, ")
    assert "fasttext" not in others
    _, *rows, others = fedsub("models", "--input", "8")[1].splitlines()
    assert [row.split()[0] for row in rows] == ["mlp", "linear"] and "fasttext" in others


def test_they_are_listed_under_their_packages_name(fedsub: Call) -> None:
    code, out, err = fedsub("models")
    assert (code, err) == (0, "")
    ours = out.split("From the package fedsub_papers:\n")[1]
    assert [line.split()[0] for line in ours.splitlines()] == sorted(kind for kind, *_ in SIZES)
    code, _, err = fedsub("models", "fasttext", "--input", "3")
    assert code == 2 and "fasttext wants token ids, got samples of shape (3,)" in err
