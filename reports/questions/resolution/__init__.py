"""Which arm is best, how sure is that, and at which price?"""
