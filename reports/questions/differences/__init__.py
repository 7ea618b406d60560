"""Where do the arms of the leading pair differ?"""
