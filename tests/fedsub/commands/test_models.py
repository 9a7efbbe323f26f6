"""`fedsub models`: sizes of kinds and of one's own."""

from pathlib import Path

from fedsub_core.models.names import PUBLISHED

from .calls import Call

OWN = """from torch import nn
class Own(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.gru = nn.GRU(shape[0], 4, batch_first=True)
        self.last = nn.Linear(4, classes)
    def forward(self, x):
        return self.last(self.gru(x.transpose(1, 2))[0][:, -1])
"""


def test_every_kind_is_listed_with_its_size(fedsub: Call) -> None:
    code, out, err = fedsub("models")
    assert (code, err) == (0, "")
    house = out.split("From the package ")[0]
    rows = {line.split()[0]: line.split() for line in house.splitlines()[1:]}
    assert rows.keys() == {"mlp", "linear", "cnn1d", *PUBLISHED}
    assert rows["mlp"][1:3] == ["69,638", f"{3 * 128 + 128 * 512 + 512 * 6:,}"]
    assert rows["har-cnn"][1] == "2,253,958"


def test_a_model_of_ones_own_is_shown_whole(fedsub: Call, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    code, out, _ = fedsub("models", f"{tmp_path}/own.py:Own", "--input", "3,50", "--classes", "5")
    assert code == 0 and "gru.weight_ih_l0  12 x 3" in out and "last.bias  5" in out
    code, _, err = fedsub("models", "lstm", "--input", "3")
    assert code == 2 and "lstm wants windows" in err
    code, _, err = fedsub("models", "mlp", "--input", "3;50")
    assert code == 2 and "--input: got '3;50', expected numbers with commas" in err


def test_token_ids_are_checked_before_anything_is_built(fedsub: Call) -> None:
    for options, complaint in (
        (("--vocabulary", "99999999999"), "--vocabulary: got 99999999999, expected 2 to 1048576"),
        (("--vocabulary", "1"), "--vocabulary: got 1, expected 2"),
        (("--input", "3,3", "--vocabulary", "5"), "--input: got '3,3' beside --vocabulary"),
        (("--hidden", "8;8"), "hidden: got '8;8'"),
    ):
        code, out, err = fedsub("models", *options)
        assert code == 2 and complaint in err
        assert len(err.splitlines()) == 1 and len(out.splitlines()) <= 1
