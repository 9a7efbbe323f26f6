"""Parts of a model of which each message says which units they have, whatever the model."""

from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Model
from fedsub_core.models.units import UnitGroup
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bits, Declared, FloatArray, Floats, Part


def slice_groups(model: Model) -> tuple[UnitGroup, ...]:
    """Return the groups of which some units may travel: those that own numbers that do.

    Units that a frozen layer reads always stay: what is frozen has no 0 for those left out.

    Raises ConfigError if the model's units are not known, or a norm is over all units of a group:
    what a device was not sent is 0, which such a norm counts in.
    """
    shapes, found = model.parameter_shapes, []
    for group in model.unit_groups:
        readers = {member.tensor for member in group.members if member.reads}
        if readers.isdisjoint(shapes) or not readers <= shapes.keys():
            continue
        if group.normed_together:
            raise ConfigError(
                f"layer {group.name}: got units that a norm is over (LayerNorm, RMSNorm, GroupNorm "
                "of one group), expected BatchNorm or none: this method keeps units that a device "
                "was not sent as 0. heterofl, fedrolex, feddrop and fedmp take such a model"
            )
        found.append(group)
    return tuple(found)


def sliced_part(
    name: str, values: FloatArray, at: Placement, declared: Declared
) -> dict[str, Part]:
    """Return numbers of a tensor as they are declared to travel, which says where they stand."""
    at = at.spelt_out(declared.shape, bool(declared.follows))
    # A module's inputs travel under its own name; a chain's follow another layer.
    if not declared.follows.startswith(f"{name}."):
        return {name: Floats(values, at)}
    inputs = Placement(at.columns).held(declared.shape[1:2])
    return {declared.follows: Bits(inputs), name: Floats(values, at)}
