"""A model's last exit as the teacher of those before it."""

from dataclasses import dataclass

from torch import Tensor

from fedsub_core.models.model import Params
from fedsub_core.training.objectives import Forward, Term


@dataclass(frozen=True)
class Distillation(Term):
    """Teaches every exit what the last one says, at a `temperature`.

    ``weight * sum_j exits_j * T**2 KL(softmax(z_last / T) || softmax(z_j / T))`` over the exits
    before the last, whose logits are constants here; the mean over the batch and the classes.
    Source: Hinton et al., 2015, over exits as in Ilhan et al., ScaleFL, CVPR 2023.

    Parameters
    ----------
    exits : weight of every exit, the last one's at the end, which is not used.
    """

    weight: float
    exits: tuple[float, ...]
    temperature: float = 3.0

    @property
    def active(self) -> bool:
        """Whether it teaches."""
        return self.weight != 0 and len(self.exits) > 1

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        *students, teacher = (logits / self.temperature for logits in forward.outputs)
        target = teacher.detach().log_softmax(-1)
        total = teacher.new_zeros(())
        for exit, student in zip(self.exits, students, strict=False):
            divergence = (target.exp() * (target - student.log_softmax(-1))).mean(-1)
            total = total + exit * (divergence * forward.batch.weight).sum()
        return self.weight * self.temperature**2 * total
