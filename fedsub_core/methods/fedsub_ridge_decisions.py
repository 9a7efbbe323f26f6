"""Decisions of the card of ``fedsub-ridge``: who is asked what, and what counts how much."""

from __future__ import annotations

DECISIONS = (
    "The model is one linear layer on the encoder's features, whatever the run's model says; "
    "encoder = auto is kernels:100+statistics for windows (of more than 64 channels kernels:100), "
    "ranks:450 for feature vectors, and none is refused: sums of whole numbers are exact, sums of "
    "others are not.",
    "With a frozen module of one's own as the encoder, sums are of whole levels as well: secure "
    "sums and forgetting stay exact. That two machines compute the same levels is not promised, "
    "and all devices need capacity 1.",
    "Round 1: everybody sends sums, and has a head of its own samples alone. Round 2: sums "
    "come back, and equations are sent. Round 3: these come back, summed, and heads are as "
    "good as they get. Then nothing travels until somebody's samples change. Where few are "
    "drawn for a round, sums change with each who comes, and all are sent again.",
    "A person's own samples are in the sums that it gets; leave-one-out takes them out again.",
    "A device of capacity c computes the first c N kernels or units (rounded, one kernel at "
    "least; always all statistics or entries) and sends sums of these features alone. It is sent "
    "sums over all people who have these features: a block of everybody's. Whoever has more is "
    "sent sums over fewer people. So each number that heads are solved of is a sum over the "
    "same samples. What weak people's other features might be is not guessed.",
    "Equations of all capacities are pooled together.",
    "With forgetting = g the sums of a person are g times those before a sample came, and the "
    "sample, class by class: a class that was not seen for long is not forgotten. A class then "
    "counts as fewer samples, a whole number of them, and sums are rounded to whole numbers at "
    "home, so that forgetting a person is exact as before. Heads, leave-one-out, weights and "
    "temperature count samples alike.",
    "The cost is of a round in which sums are new, by the clock on UCI HAR's windows, beside "
    "epochs of the CNN; in all other rounds it is nothing.",
    "Products travel about each feature's mean and are rounded feature by feature: about 0, "
    "what hardly varies would be lost in the steps of what does.",
    "Samples of one person count in the sums as most-examples times the median of everybody's "
    "at most, and as the handshake says. A device knows as how many its own count, and puts "
    "them in fully for itself.",
    "Equations are weighed in the same way. Of one whose candidates say numbers much larger "
    "than others' (three times the median a sample) they are shortened; losses count up to 3 "
    "nats a sample above the least.",
    "A person's mixture starts from a default: heads of everybody's sums in which own samples "
    "weigh 100 times, at penalties 30 and 300, half each, and temperature 4. It counts as 30 "
    "samples among those of everybody's equations, and as 3 before these are known. Leave-one-"
    "out of few samples is unfair to heads that weigh own samples much: a third of what they "
    "know of a class is left out.",
    "A sample that is its class's only one at a person is in no equations: left out, it leaves "
    "no candidate that knows the class.",
    "The temperature is the smallest whose loss on samples left out is at most .02 nats a sample "
    "above the least, and less where samples are few. Where the tested part is of another task "
    "than the trained one, the best temperature of samples left out is far too sure.",
    "robust filters for means of models do not apply: sums are checked one by one instead, and "
    "who is harmed by others' sums gives them less weight.",
    "People are as far from each other as the means of their classes, on average over classes "
    "and features that both have; who shares no class with another is as far as the farthest. "
    "Clusters: average linkage.",
    "A class that a person has no sample of is everybody's in all candidates, with own samples "
    "weighing 20 times, but with heads = own or open-classes = off. To its score the logarithm "
    "of the odds that the person does it is added, where that is below 0: p (u + (1 - u) "
    "(1 - q)^n) / (1 - p), p the share of people who have the class, q the class's share at "
    "these, n the person's samples, and u = .4 the chance that a person who does a class "
    "labelled none of it. In secure sums p is of those who were asked which classes they have.",
    "With noise on sums a class is lent only where everybody's count of it is above two "
    "deviations of the noise, and without odds: how many people have a class would have to be "
    "hidden, too.",
    "With noise on sums most-examples bounds nobody: a median of others moves with each sample "
    "of theirs, and with it what it bounds, and noise would have to hide that, too.",
    "Whoever comes late, or is tested before its first round, mixes heads on everybody's sums "
    "and its own training samples. So does whoever comes after the last round (fedsub adapt). "
    "Without a sample of one's own the head is everybody's.",
    "In runs of secure sums round 1 adds up how many people have each class, round 2 "
    "statistics of the classes that secure-least people have, round 3 equations: heads are as "
    "good as they get in round 4, and sums are the bits of plain ones. Everybody is asked in "
    "each round, whatever clients-per-round says.",
    "A person is in one opened sum of statistics: two that differ in it would tell its own. So "
    "who was silent or comes late is added with others, once secure-least are there; samples "
    "that come later count at home alone; and who is in the sums cannot be forgotten. A sum "
    "that says what no samples can is not asked for again.",
    "A class's statistics are opened if secure-least of those who have it must be in the sum, "
    "whoever is missed. Else as many more must have it in the next.",
    "There devices of a capacity below 1 are sent sums and are in none. Equations are "
    "shortened to a fixed size at home, not to others' median. groups are refused.",
)
