"""A plugin that ends the process that imports it."""

import sys

sys.exit("this module is a program")
