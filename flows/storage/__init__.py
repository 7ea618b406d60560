"""The lake, its journal, and the files next to them.

lake          Parquet tables in a folder or an object store
files         rows as Parquet, texts that are not UTF-8
journals      locating and opening the journal of a lake, and the record that binds both
cleanup       removal of leftovers of dead runs
images        pulled and built images, and their removal
retention     files that are no longer needed
report_files  the report beside the data
"""
