def page(reports):
    return ""
