"""The lake, its journal, and files beside them.

lake          Parquet tables in a folder or an object store
journals      which journal a lake belongs to, and opening it
bindings      the record of that, in both
cleanup       what dead runs left behind
retention     files that are no longer needed
exports       predictions and trajectories as files
report_files  the report beside the data
"""
