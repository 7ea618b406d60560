"""How do the arms work, and where does the money go?"""
