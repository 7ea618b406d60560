"""What does a budget buy?"""
