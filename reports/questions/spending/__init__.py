"""How much was wasted?"""
