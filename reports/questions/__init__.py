"""The questions of a report: SQL, analysis, section and case of each in one folder."""
