"""Reports: Parquet in; tables, figures and pages out.

`reports.columns` declares every table of the lake once, and is what the writer, the
readers and the documentation are made from.
"""
