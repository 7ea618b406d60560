"""Which arm is worth its cost?"""
