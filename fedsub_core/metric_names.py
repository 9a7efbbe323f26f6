"""Names of metrics that several packages write and read; importing them imports nothing else."""

from __future__ import annotations

#: How a model does on a client's test samples, and how many there are.
SCORES = ("macro_f1", "weighted_f1", "accuracy", "loss", "examples")
#: How far a model of a target is off: mean absolute and root mean squared error in its unit, the
#: share of its variance that is predicted, mean squared error of places in its range, and samples.
TARGET_SCORES = ("mae", "rmse", "r2", "loss", "examples")
#: The numbers of a gain, as metrics.
GAIN = ("gain_over_own", "gain_over_own_low", "gain_over_own_high")
#: What a person's head reaches that is solved of its own samples alone, whatever the method.
OWN_HEADS = ("own_heads_macro_f1", "own_heads_weighted_f1", "own_heads_loss")
#: Mean F1 of tested classes that a person has not labelled, of those that this person has, and of
#: those that came with the newest data. With macro_ before it: macro F1 of people who have such.
UNLABELLED, LABELLED, NEW = CLASS_MEANS = ("f1_unlabelled", "f1_labelled", "f1_new")
#: Share of the model that a client's device can hold.
CAPACITY = "capacity"
#: That a device keeps nothing of a run any more, though it took part in it.
ANEW = "begins_anew"
#: Who trains no more, as it led the others astray.
LEFT_OUT = "left_out"
#: In which rounds a client's upload held no finite numbers, as of training that diverged.
DIVERGED = "diverged_upload"
#: Which round a client's model is of where the best is chosen, and by what.
BEST_ROUND, VALIDATION = CHOSEN = ("best_round", "validation_macro_f1")
#: The same of a target, by the mean absolute error.
TARGET_CHOSEN = (BEST_ROUND, VALIDATION_ERROR) = ("best_round", "validation_mae")
#: Of a confusion matrix's row, with the true class as the row's label: how many people have the
#: class, and (with the predicted label behind) the mean share of its samples so predicted.
CONFUSION_PEOPLE, CONFUSION = "confusion_people", "confusion."
#: Where a prototype lies in the plane of its round, by client and class; and the mean distance of
#: people's prototypes to their class's mean over that to other classes'.
PROTOTYPE_X, PROTOTYPE_Y, PROTOTYPE_RATIO = "prototype_x", "prototype_y", "prototype_ratio"
