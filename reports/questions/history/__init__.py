"""How did the results of a schedule change?"""
