"""A person's own tables as a federation: CSV, TSV, Parquet, ``.ts``, NumPy, arrays in memory.

A source (:mod:`.source`) gives one person's rows at a time, whatever the format:

- which files: :mod:`.files`; whose, and of which class, by their names: :mod:`.names`,
  :mod:`.name_guess`; ids: :mod:`.client_ids`
- a text file's head, encoding and separators:
  :mod:`.text_files`, :mod:`.encodings`, :mod:`.heads`; how they are
  said: :mod:`.written_options`; zips: :mod:`.zips`; rows that are none:
  :mod:`.first_rows`; tables by DuckDB: :mod:`.tables`, :mod:`.table_files`, :mod:`.columns`,
  :mod:`.database`
- files of arrays, and arrays: :mod:`.array_files`, :mod:`.arrays`, :mod:`.cells`
- a column's role: :mod:`.roles`, :mod:`.other_labels`; classes: :mod:`.labels`; columns that are
  no features: :mod:`.rising`, :mod:`.giveaways`, :mod:`.sparse_columns`

What follows is the same for all. A survey of all rows makes the plan (:mod:`.plan`):

- time: :mod:`.dates`, :mod:`.clocks`, :mod:`.time_unit`
- sensors' units and signs: :mod:`.sensors`, :mod:`.sizes`, :mod:`.behaviour`, :mod:`.mixed_units`,
  :mod:`.converting`
- who is a person, and what a device of one: :mod:`.devices`

Then (:mod:`.importing`) each person's rows are checked (:mod:`.cleaning`), become recordings
(:mod:`.recordings`, :mod:`.at_once`), are put on a grid in time (:mod:`.resampling`), cut into
windows (:mod:`.windowing`) and written. :mod:`.dropped` and :mod:`.resampled` are the report.
"""
