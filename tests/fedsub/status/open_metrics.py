"""OpenMetrics as text, read as strictly as the format demands."""

import re

#: A line of a sample: name, labels whose values end no line, value.
SAMPLE = re.compile(
    r'^(fedsub_[a-z0-9_]+)(\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? (\S+)$'
)


def samples(text: str) -> dict[str, float]:
    """Return the samples by name and labels, after checking what the format demands of all."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    found: dict[str, float] = {}
    family = ""
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert kind == "gauge" and family not in {name.split("{")[0] for name in found}
        elif line.startswith("# UNIT "):
            assert family.endswith(f"_{line.split(' ')[3]}")
        elif not line.startswith("# HELP "):
            matched = SAMPLE.match(line)
            assert matched is not None and matched[1] == family, line
            found[matched[1] + (matched[2] or "")] = float(matched[3])
    return found
