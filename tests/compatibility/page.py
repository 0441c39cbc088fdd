def page(reports): return ""
