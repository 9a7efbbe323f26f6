"""A person's own tables as a federation: CSV, TSV, Parquet, ``.ts``, NumPy, arrays in memory.

A source (:mod:`.source`) gives one person's rows at a time. All that happens to rows afterwards is
the same for every format: they are checked (:mod:`.cleaning`), put in order of time
(:mod:`.recordings`), cut into windows (:mod:`.windowing`) and written (:mod:`.importing`).
"""
