"""Reports: Parquet in; tables, figures and pages out.

`reports.columns` declares every table of the lake once. The writer, the readers and the
documentation are generated from it.
"""
