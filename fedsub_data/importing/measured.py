"""Labels that are measurements: numbers, which are no classes."""

from __future__ import annotations

from collections.abc import Sequence

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import MOSTLY, is_number

#: So many whole numbers, and fewer, are codes of classes.
_CODES = 20
#: More of them are codes if they count from 0 or 1, and so large a share of the numbers is there.
_COUNTED = 0.9
_CLASSES_ALONE = "FedSub recognises classes; it does not predict numbers (no regression)"


def check_labels(labels: Sequence[str], options: ImportOptions, where: str) -> list[str]:
    """Refuse labels that are measurements; return sentences on labels that are whole numbers.

    Decimal numbers are measurements. So are many whole numbers that do not count from 0 or 1, such
    as those of a heart rate.

    Raises
    ------
    DataError
        It shows some labels, and names the ways out.
    """
    numbers = [float(text.replace(",", ".")) for text in labels if is_number(text)]
    if options.measured_labels == "keep" or len(numbers) < MOSTLY * len(labels):
        return []
    decimals = [one for one in numbers if not one.is_integer()]
    least, most = min(numbers), max(numbers)
    if not decimals and len(numbers) <= _CODES:
        return []
    counted = least in (0, 1) and len(numbers) >= _COUNTED * (most - least + 1)
    if not decimals and counted:
        return [
            f"{len(numbers)} labels are whole numbers from {least:g} to {most:g}, taken as "
            f"classes. {_CLASSES_ALONE}."
        ]
    kind = "decimal" if decimals else "whole"
    shown = ", ".join(f"{one:.15g}" for one in (decimals or numbers)[:3])
    raise DataError(
        f"{where}: got {len(labels):,} labels that are {kind} numbers from {least:g} to {most:g} "
        f"({shown}, ...), as measurements are; expected classes. {_CLASSES_ALONE}. Make classes of "
        f"them in a column, such as low and high, or name another with {spelt('label')}. If they "
        f"are codes of classes, {spelt('measured-labels', 'keep')} takes each as one"
    )
