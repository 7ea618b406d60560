"""Reports: Parquet in; tables, figures and pages out."""
