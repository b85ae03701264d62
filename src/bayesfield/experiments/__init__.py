"""Studies, one command each: the paper's (``bayesfield reproduce fig2 --out fig2``), and calibration."""
