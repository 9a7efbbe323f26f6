import io
from collections.abc import Callable, Iterator, Sequence

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from fedsub_core.data.federation import Federation
from fedsub_data.inspection import drawing, plots
from fedsub_data.inspection.inspection import Inspection, inspect_federation

NAMES = ["class_shares.png", "samples_per_client.png", "prototype_similarity.png", "hopkins.png"]
DRAWERS = [
    plots.class_shares,
    plots.samples_per_client,
    plots.prototype_similarity,
    plots.hopkins_bars,
]


def texts_of(axes: Axes) -> Iterator[Text]:
    """Every text that is drawn: titles, labels, and ticks within the limits."""
    yield from (axes.title, *axes.texts)
    for axis in (axes.xaxis, axes.yaxis):
        yield axis.label
        low, high = sorted(axis.get_view_interval())
        for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
            if low <= place <= high:
                yield text


def overlapping(found: Sequence[Bbox]) -> list[tuple[Bbox, Bbox]]:
    return [(a, b) for i, a in enumerate(found) for b in found[i + 1 :] if a.overlaps(b)]


@pytest.mark.parametrize("draw", DRAWERS)
@pytest.mark.parametrize(("clients", "classes"), [(2, 2), (120, 9)])
def test_no_label_overlaps_another_or_leaves_the_figure(
    make_synthetic: Callable[..., Federation],
    draw: Callable[[Inspection], Figure],
    clients: int,
    classes: int,
) -> None:
    figure = draw(inspect_federation(make_synthetic(clients, classes), 0))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    drawn = [text for axes in figure.axes if axes.axison for text in texts_of(axes)]
    found = [text.get_window_extent(renderer) for text in drawn if text.get_text()]
    width, height = canvas.get_width_height()
    assert len(found) > classes
    assert overlapping(found) == []
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= width and b.y1 <= height for b in found)


@pytest.mark.parametrize("clients", [1, 15, 120])
def test_sizes_stay_readable_on_a_screen(
    make_synthetic: Callable[..., Federation], clients: int
) -> None:
    seen = inspect_federation(make_synthetic(clients), 0)
    for name, image in plots.figures(seen).items():
        with Image.open(io.BytesIO(image)) as opened:
            assert opened.format == "PNG", name
            inches = np.array(opened.size) / drawing.DOTS_PER_INCH
            assert 2.0 <= inches[1] <= 12 and 2.0 <= inches[0] <= 13.5, (name, inches)


def test_four_figures_and_equal_bytes(make_synthetic: Callable[..., Federation]) -> None:
    seen = inspect_federation(make_synthetic(4), 0)
    first = plots.figures(seen)
    assert list(first) == NAMES
    assert first == plots.figures(seen)


def test_names_are_drawn_as_they_are(awkward: Federation) -> None:
    figure = plots.hopkins_bars(inspect_federation(awkward, 0))
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    texts = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert texts[1] == r"costs \$5 or \$x_1^2\$"  # escaped: no formula
    assert texts[2].startswith('a "quoted" nam') and "…" in texts[2] and len(texts[2]) == 22


def test_missing_classes_are_grey_and_present_ones_are_not(awkward: Federation) -> None:
    seen = inspect_federation(awkward, 0)
    shown = plots.class_shares(seen).axes[0].images[0]
    np.testing.assert_array_equal(
        np.ma.getmaskarray(np.ma.asarray(shown.get_array())), seen.counts.T == 0
    )
    grey = matplotlib.colors.to_rgba("#c9c9c9")
    assert tuple(shown.cmap(np.ma.masked)) == pytest.approx(grey)


def test_similarities_share_one_scale_and_one_order(
    make_synthetic: Callable[..., Federation],
) -> None:
    seen = inspect_federation(make_synthetic(12), 0)
    panels = [axes for axes in plots.prototype_similarity(seen).axes if axes.images][:3]
    assert {axes.images[0].get_clim() for axes in panels} == {(-1, 1)}
    orders = {tuple(t.get_text() for t in axes.get_xticklabels()) for axes in panels}
    assert len(orders) == 1
    # Even and odd people come from two groups: each group stands together.
    order = plots._alike_together(seen)
    assert sorted(order) == list(range(12))
    assert np.count_nonzero(np.diff(order % 2)) == 1


def test_stacks_reach_the_number_of_samples(make_synthetic: Callable[..., Federation]) -> None:
    for classes, colours in ((3, 3), (9, 1)):
        seen = inspect_federation(make_synthetic(5, classes), 0)
        bars = plots.samples_per_client(seen).axes[0].patches
        assert len({bar.get_facecolor() for bar in bars}) == colours
        top = np.zeros(5)
        for bar in bars:
            assert isinstance(bar, Rectangle)
            place = round(bar.get_x() + bar.get_width() / 2)
            top[place] = max(top[place], bar.get_y() + bar.get_height())
        assert top.tolist() == seen.counts.sum(axis=1).tolist()


def test_a_class_of_too_few_samples_is_named_and_no_figure_is_registered(
    make_synthetic: Callable[..., Federation],
) -> None:
    figure = plots.hopkins_bars(inspect_federation(make_synthetic(1, 30), 0))
    assert "none" in [text.get_text() for text in figure.axes[0].texts]
    assert figure.canvas.manager is None  # pyplot would keep it until closed
