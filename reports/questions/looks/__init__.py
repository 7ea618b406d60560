"""What may be concluded before the end?"""
