"""The paper's figures and tables, one module each: a frozen ``Config``, ``run`` writes records, figures read them."""
