"""What the papers' models end with."""

from fedsub_papers.tests.again import again
from fedsub_papers.tests.models.test_published import SIZES
from tests.fedsub_core.models import test_endings as house

test_none_of_ours_ends_so = again(
    house.test_none_of_ours_ends_so, "kind", [kind for kind, *_ in SIZES]
)
