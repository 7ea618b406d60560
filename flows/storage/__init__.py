"""The lake, its journal, and files beside them.

lake          Parquet tables in a folder or an object store
files         files written whole, rows as Parquet, texts that are not UTF-8
journals      locating and opening the journal of a lake
bindings      the record of which journal belongs to a lake, in both
cleanup       removal of leftovers of dead runs
images        pulled and built images, and their removal
retention     files that are no longer needed
report_files  the report beside the data
"""
