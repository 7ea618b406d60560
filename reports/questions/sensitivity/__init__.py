"""How far do the numbers of the leading pair depend on single cells?"""
