"""Population (closed-form) versions of the paper's analysis; nothing here looks at data.

``from clovecal.theory import two_bit``: the Two-Bit environments of section 6.1.
``from clovecal.theory import gaussian``: the linear-Gaussian model of section 3.
"""
